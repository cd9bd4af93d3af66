#!/usr/bin/env bash
# A lab: hosts on one machine that see each other only through links of a chosen rate, delay, loss.
#
#   lab.sh up [OPTIONS]             make a lab
#   lab.sh exec HOST COMMAND...     run a command on a host: host0, host1, ... (or 0, 1, ...)
#   lab.sh run openmpi|mpich [-n RANKS] PROGRAM...
#                                   mpirun across the hosts, ranks dealt out in turns
#   lab.sh bytes                    what every host sent, received and lost so far, and what its card did
#   lab.sh rate R                   change the rate of all links, whatever runs on them; not with
#                                   delay or loss, nor to another congestion control
#   lab.sh down                     remove the lab and all that runs in it
#   lab.sh with [OPTIONS] -- COMMAND...
#                                   up, COMMAND, down, also after Ctrl-C or a failure; COMMAND is
#                                   openmpi|mpich ... as for run, exec HOST ..., or any program,
#                                   which finds the lab's name in HCOMP_LAB
# Options of up and with:
#   --hosts N       hosts, 1 to 200 (4)
#   --rate R        of every link, each way: 100mbit, 2.5gbit, 500kbit, none (100mbit)
#   --delay D       from a host to another, on top of sending: 1ms, 250us (none)
#   --loss P        of the frames from a host to another: 0.1% (none)
#   --card E        a card on every host: payloads of packets with type of service 0x28, which are floats,
#                   are compressed on the links by INCEPTIONN's engine, simulated, with bound 2^-E (none)
#   --seed N        which frames are lost; the same seed loses the same ones (1)
#   --tcp NAME      congestion control: reno, bbr, ... (what was best for the rate)
# Options of all:
#   --name NAME     which lab, for several at a time (HCOMP_LAB, or else lab)
#   --tools FOLDER  where CMake built switch and the library for MPICH
#                   (HCOMP_LAB_TOOLS, or else build/tests/lab of this clone)
#
# For example:
#   lab.sh with --rate 1gbit -- openmpi build/examples/small/all_reduce
#   lab.sh up --hosts 8 --delay 1ms --loss 0.1%
#   lab.sh run mpich -n 8 PROGRAM; lab.sh bytes; lab.sh down
#
# The rate counts whole Ethernet frames, with their headers of 14 bytes. Of a link of 100 Mbit/s, TCP
# hands 95.6 Mbit/s to programs: 1448 of 1514 bytes. Every host has a link of its own to one switch.
# With delay, loss or cards the switch is a process, which fills a core at 2 Gbit/s of all links together, and
# with what cards compress at 0.1 Gbit/s.
#
# Every host has its own name, address (host0 is 10.77.0.1), shared memory and /sys; files are those
# of the machine. MPI and UCX are told to use TCP alone, so that ranks of one host use it as well.
# What is set already in the environment, e.g. UCX_TLS or OMPI_MCA_pml, stays.
#
# Needs root, in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN; where users may make namespaces,
# "unshare -Ur lab.sh with ..." needs neither.
# Exit status: 0; that of the command; 1 it failed; 2 it was called wrongly; 77 this machine cannot
# have labs.
set -euo pipefail

# How it works. A lab is the process namespace of one process, its keeper, which has a network and a
# mount namespace of its own, too; every host adds a network, a mount, a name and a shared memory
# namespace to it. Nothing has a name outside, so when the keeper ends, for whatever reason, the
# kernel ends all processes of the lab, and all else vanishes with them. Until `up` is through, and
# all along under `with`, the keeper ends when a pipe from there closes. All that can be left is the
# state folder.

self=$(readlink -f "${BASH_SOURCE[0]}")
PATH+=:/usr/sbin:/sbin
most_hosts=200

# ---- Words to the user ---------------------------------------------------------------------------
die() {  # die STATUS SENTENCE...
  local status=$1
  shift
  printf 'lab: %s\n' "$@" >&2
  exit "$status"
}

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$self"; }

wrong_call() {
  die 2 "$1" "usage: lab.sh up|exec|run|bytes|rate|down|with ..., see lab.sh --help"
}

# ---- Options -------------------------------------------------------------------------------------
name=${HCOMP_LAB:-lab}
tools=${HCOMP_LAB_TOOLS:-$(readlink -f "$(dirname "$self")/../..")/build/tests/lab}
hosts=4
rate=100mbit
delay=none
loss=none
card=none
seed=1
tcp=""
lab_options="--hosts --rate --delay --loss --card --seed --tcp"

# take_options ALLOWED WORD...: what comes after the options is in `rest`.
take_options() {
  local allowed="$1 --name --tools"
  shift
  while (($#)) && [[ $1 == -* ]]; do
    if [[ $1 == -- ]]; then
      shift
      break
    fi
    [[ " $allowed " == *" $1 "* ]] ||
      wrong_call "'$command' was called with '$1'; its options are $allowed"
    (($# > 1)) || wrong_call "$1 was the last word; a value must follow it"
    declare -g "${1#--}=$2"
    shift 2
  done
  rest=("$@")
}

# measure OPTION TEXT UNIT=FACTOR...: 2.5gbit in bits is 2500000000, in `measured`; none is 0.
measure() {
  local option=$1 text=$2 pair fraction units
  shift 2
  units=$(printf ', %s' "${@%=*}")
  if [[ $text == none ]]; then
    measured=0
    return
  fi
  if [[ $text =~ ^([0-9]{1,9})(\.([0-9]{1,6}))?([a-z%]+)$ ]]; then
    for pair; do
      [[ ${BASH_REMATCH[4]} == "${pair%=*}" ]] || continue
      fraction=${BASH_REMATCH[3]}000000
      measured=$((10#${BASH_REMATCH[1]} * ${pair#*=} + 10#${fraction:0:6} * ${pair#*=} / 1000000))
      return
    done
  fi
  wrong_call "$option is '$text'; it takes none or a number with one of the units ${units:2}"
}

# in_range OPTION TEXT VALUE SMALLEST LARGEST WORDS
in_range() {
  (($3 >= $4 && $3 <= $5)) || wrong_call "$1 is '$2'; it takes $6"
}

check_name() {
  [[ $name =~ ^[A-Za-z0-9_-]{1,32}$ ]] ||
    wrong_call "the lab's name is '$name'; it takes 1 to 32 letters, digits, - and _"
}

# check_rate OPTION RATE: sets `bits`, a second; 0 without a limit
check_rate() {
  measure "$1" "$2" kbit=1000 mbit=1000000 gbit=1000000000
  bits=$measured
  ((bits == 0)) || in_range "$1" "$2" "$bits" 100000 100000000000 "none or 100kbit to 100gbit"
}

check_lab_options() {
  [[ $hosts =~ ^[0-9]{1,6}$ ]] || wrong_call "--hosts is '$hosts'; it takes a number, 1 to $most_hosts"
  hosts=$((10#$hosts))
  in_range --hosts "$hosts" "$hosts" 1 $most_hosts "1 to $most_hosts"
  [[ $seed =~ ^[0-9]{1,18}$ ]] || wrong_call "--seed is '$seed'; it takes a number of up to 18 digits"
  [[ $tcp =~ ^[a-z0-9_]*$ ]] || wrong_call "--tcp is '$tcp'; it takes a name as reno or bbr"
  check_rate --rate "$rate"
  measure --delay "$delay" us=1 ms=1000 s=1000000
  delay_us=$measured
  in_range --delay "$delay" "$delay_us" 0 10000000 "none or up to 10s"
  measure --loss "$loss" %=10000
  loss_ppm=$measured
  in_range --loss "$loss" "$loss_ppm" 0 1000000 "none or 0.0001% to 100%"
  [[ $card == none || $card =~ ^[0-9]{1,2}$ ]] || wrong_call "--card is '$card'; it takes none or 1 to 14"
  card_bound=0
  [[ $card == none ]] || card_bound=$((10#$card))
  [[ $card == none ]] || in_range --card "$card" "$card_bound" 1 14 "none or 1 to 14"
  ((delay_us + loss_ppm + card_bound == 0 || bits <= 1000000000)) ||
    wrong_call "--rate is '$rate' with --delay, --loss or --card; the switch for these carries up to 1gbit"
  choose_queue
}

# How much a link may send at once and keep waiting, and the congestion control. At 100 Mbit/s reno
# and 5 ms of queue vary least; at 1 Gbit/s bbr and 8 ms deliver the rate, where an all-reduce with
# reno is a third slower.
choose_queue() {
  local best=bbr allowed
  burst=$((bits / 7600))  # bytes in 1.05 ms
  limit=$((bits / 1000))
  if ((bits > 0 && bits < 300000000)); then
    best=reno
    limit=$((bits / 1525))
  fi
  ((burst > 16384)) || burst=16384
  ((limit > 65536)) || limit=65536
  limit=$((limit + bits * delay_us / 4000000))  # what is under way must have room as well
  allowed=$(</proc/sys/net/ipv4/tcp_allowed_congestion_control)
  [[ " $allowed " == *" $best "* ]] || best=${allowed%% *}
  tcp=${tcp:-$best}
  [[ " $allowed " == *" $tcp "* ]] ||
    die 1 "--tcp is '$tcp'; this kernel lets namespaces choose among: $allowed" \
      "sysctl net.ipv4.tcp_allowed_congestion_control lets them choose others"
}

# ---- Where labs are kept -------------------------------------------------------------------------
find_base() {
  local folder
  for folder in /run "${XDG_RUNTIME_DIR-}"; do
    if [[ -n $folder && -d $folder && -w $folder ]]; then
      base=$folder/hcomp-lab
      return
    fi
  done
  # Nothing can be made; what somebody else made can still be named.
  base=/run/hcomp-lab
}

started() {  # started PID: when it did; a number that is used again has another time
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # The name of the program is in brackets and may hold spaces.
  read -ra stat <<<"${stat##*) }"
  [[ ${stat[0]} != Z ]] && echo "${stat[19]}"
}

keeper_lives() {  # sets `keeper`
  local since
  keeper=""
  [[ -e $state/keeper ]] && read -r keeper since <"$state/keeper" &&
    [[ $(started "$keeper") == "$since" ]]
}

# An ending process waits for those of its lab, but has no words any more.
lab_works() { keeper_lives && [[ -n $(tr -d '\0' <"/proc/$keeper/cmdline") ]]; }

# Who makes or removes a lab waits for others who do, until `lock` is closed.
take_turn() {
  exec {lock}<"$base"
  flock -w 30 "$lock" || die 1 "others have been making or removing a lab for 30 s; try again"
}

remove_lab() {
  local tries
  if keeper_lives; then
    kill -9 "$keeper" 2>/dev/null || ! keeper_lives ||  # it may have ended meanwhile
      die 1 "the lab '$name' cannot be ended as user $EUID; its owner can"
    for ((tries = 0; tries < 500; tries++)); do
      keeper_lives || break
      sleep 0.01
    done
    ! keeper_lives || die 1 "the lab '$name' still runs 5 s after SIGKILL to process $keeper"
  fi
  rm -rf "$state"
}

need_lab() {
  lab_works ||
    die 1 "there is no lab '$name' in $base; 'lab.sh up --name $name' makes one"
  # shellcheck source=/dev/null
  source "$state/settings"
}

# ---- What this machine can do --------------------------------------------------------------------
need_programs() {
  local pair
  for pair in {ip,bridge,tc}=iproute2 {unshare,nsenter,flock,setpriv}=util-linux mount=mount \
    hostname=hostname; do
    [[ -x $(command -v "${pair%=*}") ]] ||
      die 77 "no program '${pair%=*}' was found in $PATH; on Debian the package ${pair#*=} has it"
  done
}

need_rights() {
  local said probe='ip link add hcomp0 type bridge && ip link add hcomp1 type veth peer name hcomp2'
  ((bits == 0)) || probe+=' && tc qdisc add dev hcomp1 root tbf rate 1mbit burst 16kb limit 64kb'
  said=$(unshare --net --mount --uts --ipc --pid --fork true 2>&1) ||
    die 77 "a lab needs network, mount, name and process namespaces; making them as user $EUID gave:" \
      "  $said" \
      "run it as root; in a container, give it CAP_SYS_ADMIN and CAP_NET_ADMIN"
  if ((delay_us + loss_ppm + card_bound > 0)); then
    said=$({ : </dev/net/tun && : >/dev/net/tun; } 2>&1) ||
      die 77 "--delay $delay, --loss $loss and --card $card need /dev/net/tun; opening it gave:" "  ${said##*: }" \
        "in a container, give it this device (docker run --device /dev/net/tun)"
  else
    said=$(unshare --net sh -c "$probe" 2>&1) ||
      die 77 "a lab needs a bridge, veth pairs and the tbf queue of the kernel; making them gave:" \
        "  $said" \
        "give CAP_NET_ADMIN, or use a kernel with bridge, veth and sch_tbf"
  fi
}

need_tool() {  # need_tool FILE TARGET
  [[ -e $tools/$1 ]] ||
    die 1 "there is no $1 in $tools" \
      "'cmake --build build --target $2' makes it; --tools or HCOMP_LAB_TOOLS say where it is"
  tools=$(readlink -f "$tools")
}

# ---- up ------------------------------------------------------------------------------------------
up() {
  local word="" text i
  need_programs
  need_rights
  ((delay_us + loss_ppm + card_bound == 0)) || need_tool switch hcomp_lab_switch
  ((card_bound == 0)) || need_tool libhcomp_lab_card.so hcomp_lab_card
  mkdir -p "$base" || die 77 "the folder $base for the state of labs cannot be made"

  # One at a time looks for a name and takes it.
  take_turn
  if lab_works; then
    die 1 "there is a lab '$name' already: $(cat "$state/words")" \
      "'lab.sh down --name $name' removes it; --name makes another one beside it"
  fi
  remove_lab
  mkdir -p "$state/tmp"
  trap remove_lab EXIT
  words="$hosts hosts, host0 to host$((hosts - 1)), $rate"
  [[ $delay == none ]] || words+=", $delay"
  [[ $loss == none ]] || words+=", $loss lost"
  [[ $card == none ]] || words+=", cards"
  echo "$words" >"$state/words"
  for word in hosts bits burst limit delay_us loss_ppm card_bound seed tcp tools; do
    printf '%s=%q\n' "$word" "${!word}"
  done >"$state/settings"
  {
    echo "127.0.0.1 localhost"
    for ((i = 0; i < hosts; i++)); do echo "$(address "$i") host$i"; done
  } >"$state/hosts"
  printf '#!/usr/bin/env bash\nexec %q --as-rsh --name %q "$@"\n' "$self" "$name" >"$state/rsh"
  chmod +x "$state/rsh"

  # shellcheck disable=SC2093  # exec is in the coprocess
  coproc keeper_pipe {
    exec setsid unshare --net --mount --uts --ipc --pid --fork --kill-child --propagation slave \
      "$self" --as-keeper --name "$name" 2>"$state/log" {lock}>&-
  }
  # The variables go when the coprocess does.
  local from=${keeper_pipe[0]}
  hold=${keeper_pipe[1]}
  while read -r -t 60 word text <&"$from"; do
    case $word in
      pid) echo "$text $(started "$text")" >"$state/keeper" ;;
      ready) break ;;
    esac
  done
  [[ $word == ready ]] ||
    die 1 "making the lab of $words failed:" "$(sed 's/^/  /' "$state/log")"
  trap - EXIT
  exec {lock}<&- {from}<&-
}

address() { echo "10.77.0.$(($1 + 1))"; }
hardware() { printf '02:77:00:00:00:%02x' $(($1 + 1)); }

# ---- Inside: the keeper and the hosts -------------------------------------------------------------
be_keeper() {
  local i pid news
  # Of the machine's /proc: the number outside.
  read -r pid _ </proc/self/stat
  echo "pid $pid"
  # shellcheck source=/dev/null
  source "$state/settings"
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  be_quiet
  mkfifo "$state/news"
  exec {news}<>"$state/news"
  rm "$state/news"

  pids=()
  for ((i = 0; i < hosts; i++)); do
    unshare --net --mount --uts --ipc --propagation slave \
      "$self" --as-host --name "$name" "$i" </dev/null >&"$news" &
    pids+=($!)
  done
  hosts_report "$news"
  if ((delay_us + loss_ppm + card_bound > 0)); then
    join_by_switch "$news"
  else
    join_by_bridge
  fi
  give_addresses
  echo "${pids[*]}" >"$state/pids"

  echo ready
  # Either "stay", or the end of who made this lab, and so of the lab.
  read -r _ || exit 0
  exec </dev/null >/dev/null
  while :; do read -r _ <&"$news" || true; done
}

hosts_report() {
  local i tries
  for ((i = 0; i < hosts; i++)); do
    for ((tries = 20; tries > 0; tries--)); do
      ! read -r -t 1 _ <&"$1" || continue 2
      [[ -e $state/settings ]] || exit 1  # who made this lab was killed, and it is down
    done
    echo "only $i of $hosts hosts came up within 20 s" >&2
    exit 1
  done
}

# Nothing but what programs send shall be on the links.
be_quiet() {
  local of
  for of in default all; do
    [[ ! -e /proc/sys/net/ipv6 ]] || echo 1 >/proc/sys/net/ipv6/conf/$of/disable_ipv6
  done
  ip link set lo up
}

be_host() {
  # shellcheck source=/dev/null
  source "$state/settings"
  mount -t sysfs sysfs /sys
  mount -t tmpfs tmpfs /dev/shm
  mount -t tmpfs tmpfs "$state/tmp"
  mount --bind "$state/hosts" /etc/hosts
  hostname "host$1"
  be_quiet
  echo "$tcp" >/proc/sys/net/ipv4/tcp_congestion_control
  echo "here"
  exec >/dev/null
  exec sleep infinity
}

# ---- The network between the hosts ----------------------------------------------------------------
on_network() {  # on_network I COMMAND...: with the network of host I
  nsenter --net="/proc/${pids[$1]}/ns/net" "${@:2}"
}

join_by_bridge() {
  local i
  ip link add switch type bridge
  ip link set switch up
  for ((i = 0; i < hosts; i++)); do
    ip link add "port$i" type veth peer name eth0 netns "${pids[i]}"
    ip link set "port$i" master switch up
    bridge fdb replace "$(hardware "$i")" dev "port$i" master static
    ((bits == 0)) || limit_link "$i"
  done
}

limit_link() {  # limit_link I: both ways, of host I
  local queue=(root tbf rate "${bits}bit" burst "${burst}b" limit "${limit}b")
  tc qdisc replace dev "port$1" "${queue[@]}"
  on_network "$1" tc qdisc replace dev eth0 "${queue[@]}"
}

change_rate() {  # change_rate RATE: of all links that are there
  local i pids words
  read -ra pids <"$state/pids"
  check_rate "the rate" "$1"
  choose_queue
  for ((i = 0; i < hosts; i++)); do
    if ((bits > 0)); then
      limit_link "$i"
    else
      tc qdisc del dev "port$i" root 2>/dev/null || true # where there is none
      on_network "$i" tc qdisc del dev eth0 root 2>/dev/null || true
    fi
  done
  words=$(<"$state/words")
  echo "${words%, *}, $1" >"$state/words"
}

join_by_switch() {
  local said="" i networks=() card=()
  ((card_bound == 0)) || card=(--card "$tools/libhcomp_lab_card.so" --bound "$card_bound")
  for ((i = 0; i < hosts; i++)); do networks+=("/proc/${pids[i]}/ns/net"); done
  "$tools/switch" --rate "$bits" --delay "$delay_us" --loss "$loss_ppm" --queue "$limit" \
    --seed "$seed" --counters "$state/counters" "${card[@]}" "${networks[@]}" </dev/null >&"$1" &
  echo "$!" >"$state/switch"
  read -r -t 20 said <&"$1" || true
  [[ $said == ready ]] || die 1 "the switch was not ready within 20 s"
}

give_addresses() {
  local i neighbours=""
  # Known beforehand: no questions on the links.
  for ((i = 0; i < hosts; i++)); do
    neighbours+="neighbour replace $(address "$i") lladdr $(hardware "$i") dev eth0"$'\n'
  done
  for ((i = 0; i < hosts; i++)); do
    on_network "$i" ip -batch - <<END
link set dev eth0 address $(hardware "$i")
address add $(address "$i")/24 dev eth0
link set dev eth0 up
$neighbours
END
  done
}

# ---- Commands on hosts ---------------------------------------------------------------------------
# number_of HOST: host2 is 2, in `host`.
number_of() {
  host=${1#host}
  [[ $host =~ ^[0-9]{1,3}$ && $((10#$host)) -lt $hosts ]] ||
    wrong_call "no host is called '$1'; the lab '$name' has host0 to host$((hosts - 1))"
  host=$((10#$host))
}

# From outside: what follows runs among the processes of the lab, and is told to end when this is
# killed.
enter_lab() {
  exec nsenter --target "$keeper" --pid --net --mount --wdns="$PWD" \
    setpriv --pdeathsig TERM "$self" "$@"
}

# From inside. MPI starts its daemons by this as if by rsh, on the first host and from there.
enter_host() {
  local pids
  read -ra pids <"$state/pids"
  [[ -d /proc/${pids[$1]} ]] ||
    die 1 "host$1 of the lab '$name' has ended; 'lab.sh down --name $name' removes the others"
  exec nsenter --target "${pids[$1]}" --net --mount --uts --ipc --wdns="$PWD" "${@:2}"
}

show_bytes() {
  local pids i counted=() statistics=/sys/class/net/eth0/statistics
  read -ra pids <"$state/pids"
  [[ ! -e $state/switch ]] || ask_switch
  echo "host sent_bytes received_bytes lost_frames dropped_frames"
  for ((i = 0; i < hosts; i++)); do
    # shellcheck disable=SC2046
    echo "host$i" $(nsenter --target "${pids[i]}" --mount \
      cat $statistics/tx_bytes $statistics/rx_bytes) \
      "${counted[i]:-0 $(($(tc -s qdisc show dev "port$i" | dropped) + \
        $(on_network "$i" tc -s qdisc show dev eth0 | dropped)))}"
  done
  ((card_bound > 0)) || return 0
  echo "host card_packets values compressed_bytes damaged compressor_cycles decompressor_cycles"
  awk '{ print "host" NR - 1, $0 }' "$state/counters.cards"
}

dropped() { sed -n 's/.*[(]dropped \([0-9]*\),.*/\1/p'; }

ask_switch() {
  local tries
  rm -f "$state/counters"
  kill -USR1 "$(<"$state/switch")"
  for ((tries = 0; tries < 500; tries++)); do
    [[ ! -e $state/counters ]] || break
    sleep 0.01
  done
  mapfile -t counted <"$state/counters"
}

# ---- run -----------------------------------------------------------------------------------------
# find_launcher WORDS PROGRAM...: the first of these whose version has the words, in `launcher`.
find_launcher() {
  local words=$1
  shift
  for launcher; do
    [[ "$("$launcher" --version 2>/dev/null </dev/null || true)" != *"$words"* ]] || return 0
  done
  die 77 "none of $* was found to be of $mpi (its version would say '$words')"
}

# of_this_mpi OTHER LIBRARY PROGRAM: started by another MPI's mpirun, every rank thinks it is alone.
of_this_mpi() {
  local path
  path=$(command -v -- "$3") || wrong_call "there is no program '$3'"
  [[ "$(ldd "$path" 2>/dev/null || true)" != *"$2"* ]] ||
    wrong_call "$3 was built with $1, but 'run $mpi' was asked for"
}

# Unless the environment says otherwise.
default() { [[ -n ${!1+set} ]] || export "$1=$2"; }

run() {
  local mpi=${1-} ranks=$hosts preload everyone slots
  case $mpi in
    openmpi) find_launcher OpenRTE mpiexec.openmpi mpiexec mpirun ;;
    mpich) find_launcher HYDRA mpiexec.mpich mpiexec mpirun ;;
    *) wrong_call "'run' was called with '$mpi'; it knows the MPIs openmpi and mpich" ;;
  esac
  shift
  if [[ ${1-} == -n ]]; then
    [[ ${2-} =~ ^0*[1-9][0-9]{0,4}$ ]] ||
      wrong_call "-n was followed by '${2-}'; it takes a number of ranks"
    ranks=$((10#$2))
    shift 2
  fi
  (($# > 0)) || wrong_call "'run $mpi' needs a program"
  slots=$(((ranks + hosts - 1) / hosts))

  # Ranks share the machine's few cores and its memory, which hosts do not.
  default UCX_TLS tcp,self
  default UCX_NET_DEVICES eth0
  default HCOMP_UCX_TLS "$UCX_TLS"
  default HCOMP_UCX_NET_DEVICES "$UCX_NET_DEVICES"

  if [[ $mpi == openmpi ]]; then
    of_this_mpi MPICH libmpich "$1"
    default OMPI_ALLOW_RUN_AS_ROOT 1
    default OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
    default OMPI_MCA_plm rsh
    default OMPI_MCA_plm_rsh_agent "$state/rsh"
    default OMPI_MCA_orte_tmpdir_base "$state/tmp"
    default OMPI_MCA_oob_tcp_if_include eth0
    default OMPI_MCA_pml ob1
    default OMPI_MCA_btl tcp,self
    default OMPI_MCA_btl_tcp_if_include eth0
    default OMPI_MCA_mpi_yield_when_idle 1
    default OMPI_MCA_hwloc_base_binding_policy none
    everyone=$(for ((i = 0; i < hosts; i++)); do echo "host$i:$slots"; done | paste -sd,)
    enter_lab --as-host-command --name "$name" 0 \
      "$launcher" -np "$ranks" --map-by node -host "$everyone" "$@"
  else
    of_this_mpi "Open MPI" libopen-pal "$1"
    need_tool libhcomp_lab_mpich.so hcomp_lab_mpich
    preload=$tools/libhcomp_lab_mpich.so
    everyone=$(for ((i = 0; i < hosts; i++)); do echo "host$i"; done | paste -sd,)
    enter_lab --as-host-command --name "$name" 0 \
      "$launcher" -launcher rsh -launcher-exec "$state/rsh" -iface eth0 -hosts "$everyone" \
      -genv LD_PRELOAD "$preload${LD_PRELOAD:+:$LD_PRELOAD}" -n "$ranks" "$@"
  fi
}

# ---- with ----------------------------------------------------------------------------------------
with() {
  local called=("$@")
  case $1 in
    openmpi | mpich) called=("$self" run "$@") ;;
    exec) called=("$self" "$@") ;;
    *) command -v -- "$1" >/dev/null || wrong_call "there is no program '$1'" ;;
  esac
  up
  trap end_with EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # In the background, so that signals are heard at once; but with the input and the signals of the
  # foreground.
  HCOMP_LAB=$name HCOMP_LAB_TOOLS=$tools \
    env --default-signal=INT,QUIT "${called[@]}" <&0 {hold}>&- &
  child=$!
  wait "$child"
}

end_with() {
  trap '' HUP INT TERM
  disown -a  # else bash tells that it was killed
  kill "$child" 2>/dev/null || true
  take_turn
  remove_lab
}

# ---- What was asked ------------------------------------------------------------------------------
command=${1-}
(($# == 0)) || shift
find_base
case $command in
  -h | --help | help)
    usage
    exit 0
    ;;
  up)
    take_options "$lab_options" "$@"
    ((${#rest[@]} == 0)) || wrong_call "'up' was called with '${rest[0]}', which it does not know"
    ;;
  with)
    take_options "$lab_options" "$@"
    ((${#rest[@]} > 0)) || wrong_call "'with' needs a command, after --"
    ;;
  exec | --as-host-command | --as-rsh)
    take_options "" "$@"
    ((${#rest[@]} > 1)) || wrong_call "'exec' needs a host and a command"
    ;;
  run)
    take_options "" "$@"
    ;;
  rate)
    take_options "" "$@"
    ((${#rest[@]} == 1)) || wrong_call "'rate' needs one rate, as 100mbit or none"
    check_rate "the rate" "${rest[0]}"
    ;;
  --as-rate) take_options "" "$@" ;;
  bytes | down | --as-bytes | --as-keeper | --as-host)
    take_options "" "$@"
    [[ $command == --as-host ]] || ((${#rest[@]} == 0)) ||
      wrong_call "'$command' was called with '${rest[0]}', which it does not know"
    ;;
  "") wrong_call "lab.sh needs a command" ;;
  *) wrong_call "lab.sh has no command '$command'" ;;
esac
check_name
state=$base/$name

case $command in
  up)
    check_lab_options
    up
    echo stay >&"$hold"
    echo "lab '$name': $words"
    ;;
  with)
    check_lab_options
    with "${rest[@]}"
    ;;
  exec)
    need_lab
    number_of "${rest[0]}"
    enter_lab --as-host-command --name "$name" "$host" "${rest[@]:1}"
    ;;
  run)
    need_lab
    run "${rest[@]}"
    ;;
  bytes)
    need_lab
    enter_lab --as-bytes --name "$name"
    ;;
  rate)
    need_lab
    [[ ! -e $state/switch ]] ||
      die 1 "the lab '$name' has delay or loss: its rate stays what it is"
    enter_lab --as-rate --name "$name" "${rest[0]}"
    ;;
  down)
    [[ -e $base ]] || exit 0
    take_turn
    remove_lab
    ;;
  --as-keeper) be_keeper ;;
  --as-host) be_host "${rest[0]}" ;;
  --as-host-command) enter_host "${rest[@]}" ;;
  --as-rsh)
    # shellcheck source=/dev/null
    source "$state/settings"
    number_of "${rest[0]}"
    enter_host "$host" bash -c "${rest[*]:1}"
    ;;
  --as-bytes)
    # shellcheck source=/dev/null
    source "$state/settings"
    show_bytes
    ;;
  --as-rate)
    # shellcheck source=/dev/null
    source "$state/settings"
    change_rate "${rest[0]}"
    ;;
esac
