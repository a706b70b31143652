"""Which part answers which address."""


urlpatterns: list[object] = []
