# Ends what a terminal has started on this machine, for ssh.py, which sends it over as a POSIX shell's input.
#
#   sh -s MARK HUNDREDTHS      the time between TERM and KILL
#
# Ours is what bears MARK in its environment, shares a session with such a process, or descends from one: whoever
# cleans the environment of a program, or is another user (sudo), does not hide it while one of these ties holds.
# Says "gone", "left" and pids, or "unknown" where processes cannot be seen: an empty list of a blind look is no proof.

unable() {
  echo unknown
  exit
}

look() { # sets left: pids, "" for none
  found=$({
    grep -lsF -e "$1" /proc/[0-9]*/environ | cut -d/ -f3
    echo stat
    cat /proc/[0-9]*/stat 2>/dev/null
  } | awk -v me=$$ '
    $1 == "stat" { stats = 1; next }
    !stats { ours[$1] = 1; next }
    { pid = $1; sub(/^.*\) /, ""); state[pid] = $1; parent[pid] = $2; session[pid] = $4 }
    END {
      for (pid in ours) if (pid in session) sessions[session[pid]] = 1
      for (pid in session) if (session[pid] in sessions) ours[pid] = 1
      do {
        more = 0
        for (pid in parent) if (!(pid in ours) && (parent[pid] in ours)) { ours[pid] = 1; more = 1 }
      } while (more)
      for (pid in ours) if ((pid in state) && state[pid] !~ /[ZX]/) print pid
      if (me in parent) print "seen"
    }')
  case $found in
    *seen) left=${found%seen} ;;
    *) unable ;;
  esac
}

tell() {
  for pid in $left; do kill -s "$1" "$pid" 2>/dev/null; done
}

tick() { # sets now, in hundredths of a second
  read -r up rest </proc/uptime
  now=${up%.*}${up#*.}
}

[ -r /proc/self/environ ] && [ -r /proc/uptime ] || unable
for tool in grep cut cat awk sleep; do command -v "$tool" >/dev/null || unable; done

tick
kill_at=$((now + $2))
look "$1"
tell HUP
tell TERM
tell CONT
empty=0
while :; do
  if [ -n "$left" ]; then
    empty=0
    tick
    [ "$now" -lt $((kill_at + 200)) ] || break
    [ "$now" -lt "$kill_at" ] || tell KILL
    sleep 0.05 2>/dev/null || sleep 1
  else
    empty=$((empty + 1)) # one look may come between a fork and the end of the parent
    [ "$empty" -lt 2 ] || break
  fi
  look "$1"
done
if [ -z "$left" ]; then echo gone; else echo left $left; fi
