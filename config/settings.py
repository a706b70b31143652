"""Django's settings. Everything that an installation may choose comes from the environment and is checked here."""

from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from environs import Env

from config.logs import logging_config

env = Env()
BASE_DIR = Path(__file__).resolve().parent.parent

DEBUG = env.bool("OUTLIVE_DEBUG", False)
SECRET_KEY = env.str("OUTLIVE_SECRET_KEY", "")
if not SECRET_KEY:
    if env.bool("CI", False) or env.str("DATABASE_URL", "") == "":
        SECRET_KEY = "only-for-tests-and-management-commands-without-a-server"
    else:
        raise ImproperlyConfigured("Set OUTLIVE_SECRET_KEY to 50 or more random characters; `make up` makes one.")

ALLOWED_HOSTS = env.list("OUTLIVE_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
BASE_URL = env.str("OUTLIVE_BASE_URL", "http://127.0.0.1:8000")
CSRF_TRUSTED_ORIGINS = env.list("OUTLIVE_TRUSTED_ORIGINS", [BASE_URL])
REDIS_URL = env.str("REDIS_URL", "redis://127.0.0.1:6379/0")
WORKSPACES = Path(env.str("OUTLIVE_WORKSPACES", str(BASE_DIR / ".state" / "workspaces")))
# Where the host of terminals, the workers and the web processes of one machine meet. Short: the paths of local sockets
# end at 107 characters.
RECORDINGS = Path(env.str("OUTLIVE_RECORDINGS", str(WORKSPACES.parent / "recordings")))
TERMINALS = Path(env.str("OUTLIVE_TERMINALS", str(WORKSPACES.parent / "terminals")))
LOCAL_SHELL = env.bool("OUTLIVE_LOCAL_SHELL", True)  # offer the target "local" without a row of its own
SHELL_USER = env.str("OUTLIVE_SHELL_USER", "nobody")  # who local shells run as, where Outlive itself runs as root
COMMAND_USER = env.str("OUTLIVE_COMMAND_USER", SHELL_USER)  # the same for the commands of tools
SHELL_HOMES = env.str("OUTLIVE_SHELL_HOMES", "/var/tmp/outlive-shells")  # where that user cannot reach the workspaces

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "django_rq",
    "ninja",
    "runs",
    "streaming",
]
MIDDLEWARE = [
    "runs.pages.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csp",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {"default": env.dj_db_url("DATABASE_URL", "postgresql:///outlive")}
DATABASES["default"]["ENGINE"] = "config.postgresql"
# A thread keeps its connection: to make one, and to plan all statements anew, costs more than most requests. The web
# process has as many threads as streaming/server.py says.
DATABASES["default"]["CONN_MAX_AGE"] = 600
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True  # a restart of PostgreSQL breaks every connection that waits
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "outlive"},
    }
}
RQ_QUEUES = {
    # One queue a worker: RQ moves a job to an intermediate list only then, so a dying worker loses none.
    # Blocking reads need a client without a socket timeout (redis-py 8 has 5 s by default).
    "default": {"URL": REDIS_URL, "DEFAULT_TIMEOUT": -1, "REDIS_CLIENT_KWARGS": {"socket_timeout": None}},
}
RQ = {"COMMIT_MODE": "auto"}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
CSRF_FAILURE_VIEW = "runs.pages.failures.csrf_failure"
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/runs/"
LOGOUT_REDIRECT_URL = "/login/"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "runs" / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
# Of the packages only what a browser loads; without them (see config/stack/set_up.py) shells show as text.
XTERM = BASE_DIR / "node_modules" / "@xterm"
STATICFILES_DIRS = [
    (f"xterm/{package}", str(XTERM / package / folder))
    for package, folder in (
        ("xterm", "lib"),
        ("xterm", "css"),
        ("addon-fit", "lib"),
        ("addon-search", "lib"),
        ("addon-serialize", "lib"),
        ("addon-web-links", "lib"),
    )
    if (XTERM / package / folder).is_dir()
]
STATIC_ROOT = BASE_DIR / ".state" / "static"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

IS_HTTPS = BASE_URL.startswith("https://")
SESSION_ENGINE = "runs.sessions"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("OUTLIVE_BEHIND_PROXY", False) else None
X_FRAME_OPTIONS = "DENY"
SECURE_CSP = {
    "default-src": ["'self'"],
    "script-src": ["'self'", "<CSP_NONCE_SENTINEL>"],
    "style-src": ["'self'", "<CSP_NONCE_SENTINEL>"],
    "img-src": ["'self'", "data:"],
    "connect-src": ["'self'"],
    "object-src": ["'none'"],
    "base-uri": ["'none'"],
    "form-action": ["'self'"],
    "frame-ancestors": ["'none'"],
}

DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20
FILE_UPLOAD_MAX_MEMORY_SIZE = 1 << 20
DATA_UPLOAD_MAX_NUMBER_FILES = 50

LOGGING_CONFIG = None
LOGGING = logging_config(json_lines=env.bool("OUTLIVE_LOG_JSON", True), level=env.str("OUTLIVE_LOG_LEVEL", "INFO"))
