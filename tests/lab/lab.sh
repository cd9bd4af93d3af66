#!/usr/bin/env bash
# Emulated networks on one machine: nodes, each with a link of a given rate, delay and packet loss.
#
#   lab.sh up [OPTIONS]             create a lab
#   lab.sh exec HOST COMMAND...     run a command on a node: host0, host1, ... (or 0, 1, ...)
#   lab.sh run openmpi|mpich [-n RANKS] PROGRAM...
#                                   mpirun over all nodes, ranks assigned round-robin
#
#   lab.sh bytes                    print bytes sent, bytes received and frames lost per node, and
#                                   the counters of the cards
#   lab.sh rate R                   change the rate of all links at run time; not in a lab with
#                                   delay, loss or cards; keeps the congestion control
#
#   lab.sh down                     remove the lab and end all its processes
#   lab.sh with [OPTIONS] -- COMMAND...
#                                   up, COMMAND, down; down also after Ctrl-C or a failure. COMMAND
#                                   is openmpi|mpich ... as for run, exec HOST ..., or any program;
#                                   it finds the name of the lab in HCOMP_LAB
#
# Options of up and with (defaults in brackets):
#   --hosts N       number of nodes, 1 to 200 (4)
#   --rate R        rate of every link, per direction: 100mbit, 2.5gbit, 500kbit, none (100mbit)
#   --delay D       one-way delay between nodes, added to the time of sending: 1ms, 250us (none)
#   --loss P        share of frames lost between nodes: 0.1% (none)
#
#   --card E        a simulated network card with INCEPTIONN's engine on every node: compresses the
#                   floats of packets with type of service 0x28, with error bound 2^-E (none)
#   --seed N        seed of the losses; equal seeds lose equal frames (1)
#   --tcp NAME      congestion control: reno, bbr, ... (the best one measured for the rate)
#
# Options of all commands:
#   --name NAME     name of the lab, for several labs at a time (HCOMP_LAB, or else lab)
#   --tools FOLDER  build folder with the switch and the library for MPICH
#                   (HCOMP_LAB_TOOLS, or else build/tests/lab of this clone)
#
# For example:
#   lab.sh with --rate 1gbit -- openmpi build/examples/small/all_reduce
#   lab.sh up --hosts 8 --delay 1ms --loss 0.1%
#   lab.sh run mpich -n 8 PROGRAM; lab.sh bytes; lab.sh down
#
# The rate counts whole Ethernet frames, with their headers of 14 bytes. On a link of 100 Mbit/s,
# TCP delivers 95.6 Mbit/s of payload: 1448 of 1514 bytes. Every node has one link to one switch.
# With delay, loss or cards the switch is a process. It fills one core at 2 Gbit/s over all links
# together, and at 0.1 Gbit/s of traffic that cards compress.
#
# Every node has its own hostname, address (host0 is 10.77.0.1), shared memory and /sys. Nodes
# share the file system of the machine. MPI and UCX use only TCP, also between ranks of one node.
# Variables that are already set, e.g. UCX_TLS or OMPI_MCA_pml, keep their values.
#
# Requires root, in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN. Where users may create
# namespaces, "unshare -Ur lab.sh with ..." requires neither.
#
# Exit status: 0; the status of the command; 1 failure; 2 wrong usage; 77 this machine cannot run
# labs.
set -euo pipefail

# Design. A lab is the PID namespace of one process, the keeper, which also has a network and a
# mount namespace. Every node adds a network, a mount, a UTS and an IPC namespace.
#
# No namespace is named outside of the lab. When the keeper ends, for any reason, the kernel ends
# all processes of the lab and frees its namespaces. Until `up` has finished, and during `with`,
# the keeper ends when a pipe from the calling process closes. Only the state folder can remain.

self=$(readlink -f "${BASH_SOURCE[0]}")
PATH+=:/usr/sbin:/sbin
most_hosts=200

# ---- Messages ------------------------------------------------------------------------------------
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

# take_options ALLOWED WORD...: sets the options; puts the remaining words into `rest`.
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

# measure OPTION TEXT UNIT=FACTOR...: converts TEXT and sets `measured`: 2.5gbit is 2500000000,
# none is 0.
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

# check_rate OPTION RATE: sets `bits` per second; 0 for no limit
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
  [[ $tcp =~ ^[a-z0-9_]*$ ]] || wrong_call "--tcp is '$tcp'; it takes a name, e.g. reno or bbr"
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

# Sets the burst and the queue length of a link, and the congestion control. At 100 Mbit/s, reno
# with a queue of 5 ms has the smallest variation. At 1 Gbit/s, bbr with 8 ms delivers the rate;
# an all-reduce with reno takes a third longer.
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
  limit=$((limit + bits * delay_us / 4000000))  # room for the frames in flight
  allowed=$(</proc/sys/net/ipv4/tcp_allowed_congestion_control)
  [[ " $allowed " == *" $best "* ]] || best=${allowed%% *}
  tcp=${tcp:-$best}
  [[ " $allowed " == *" $tcp "* ]] ||
    die 1 "--tcp is '$tcp'; this kernel allows in namespaces: $allowed" \
      "'sysctl net.ipv4.tcp_allowed_congestion_control' sets the allowed ones"
}

# ---- State folder --------------------------------------------------------------------------------
find_base() {
  local folder
  for folder in /run "${XDG_RUNTIME_DIR-}"; do
    if [[ -n $folder && -d $folder && -w $folder ]]; then
      base=$folder/hcomp-lab
      return
    fi
  done
  # No lab can be created here; error messages can still name labs of other users.
  base=/run/hcomp-lab
}

started() {  # started PID: its start time, which tells a reused PID from the old one
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # The program name is in parentheses and may contain spaces.
  read -ra stat <<<"${stat##*) }"
  [[ ${stat[0]} != Z ]] && echo "${stat[19]}"
}

keeper_lives() {  # sets `keeper`
  local since
  keeper=""
  [[ -e $state/keeper ]] && read -r keeper since <"$state/keeper" &&
    [[ $(started "$keeper") == "$since" ]]
}

# A keeper that is ending waits for the processes of its lab; its command line is already empty.
lab_works() { keeper_lives && [[ -n $(tr -d '\0' <"/proc/$keeper/cmdline") ]]; }

# Creating and removing labs is exclusive: takes a lock, which closing `lock` releases.
take_turn() {
  exec {lock}<"$base"
  flock -w 30 "$lock" || die 1 "another process has been creating or removing a lab for 30 s; try again"
}

remove_lab() {
  local tries
  if keeper_lives; then
    kill -9 "$keeper" 2>/dev/null || ! keeper_lives ||  # it may have ended in the meantime
      die 1 "user $EUID may not end the lab '$name'; its owner may"
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
    die 1 "there is no lab '$name' in $base; 'lab.sh up --name $name' creates it"
  # shellcheck source=/dev/null
  source "$state/settings"
}

# ---- Requirements --------------------------------------------------------------------------------
need_programs() {
  local pair
  for pair in {ip,bridge,tc}=iproute2 {unshare,nsenter,flock,setpriv}=util-linux mount=mount \
    hostname=hostname; do
    [[ -x $(command -v "${pair%=*}") ]] ||
      die 77 "no program '${pair%=*}' was found in $PATH; on Debian install the package ${pair#*=}"
  done
}

need_rights() {
  local said probe='ip link add hcomp0 type bridge && ip link add hcomp1 type veth peer name hcomp2'
  ((bits == 0)) || probe+=' && tc qdisc add dev hcomp1 root tbf rate 1mbit burst 16kb limit 64kb'
  said=$(unshare --net --mount --uts --ipc --pid --fork true 2>&1) ||
    die 77 "a lab needs network, mount, UTS, IPC and PID namespaces; creating them as user $EUID failed:" \
      "  $said" \
      "run it as root; in a container, give it CAP_SYS_ADMIN and CAP_NET_ADMIN"
  if ((delay_us + loss_ppm + card_bound > 0)); then
    said=$({ : </dev/net/tun && : >/dev/net/tun; } 2>&1) ||
      die 77 "--delay $delay, --loss $loss and --card $card need /dev/net/tun; opening it failed:" \
        "  ${said##*: }" \
        "in a container, add this device (docker run --device /dev/net/tun)"
  else
    said=$(unshare --net sh -c "$probe" 2>&1) ||
      die 77 "a lab needs a bridge, veth pairs and the tbf queue of the kernel; creating them failed:" \
        "  $said" \
        "give CAP_NET_ADMIN, or use a kernel with bridge, veth and sch_tbf"
  fi
}

need_tool() {  # need_tool FILE TARGET
  [[ -e $tools/$1 ]] ||
    die 1 "$1 was not found in $tools" \
      "'cmake --build build --target $2' builds it; --tools or HCOMP_LAB_TOOLS name its folder"
  tools=$(readlink -f "$tools")
}

# ---- up ------------------------------------------------------------------------------------------
up() {
  local word="" text i
  need_programs
  need_rights
  ((delay_us + loss_ppm + card_bound == 0)) || need_tool switch hcomp_lab_switch
  ((card_bound == 0)) || need_tool libhcomp_lab_card.so hcomp_lab_card
  mkdir -p "$base" || die 77 "the state folder $base cannot be created"

  # Looking a name up and taking it is one step under the lock.
  take_turn
  if lab_works; then
    die 1 "there is a lab '$name' already: $(cat "$state/words")" \
      "'lab.sh down --name $name' removes it; another --name creates a second lab"
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
  # Bash unsets the variables of the coprocess when it ends: copy them.
  local from=${keeper_pipe[0]}
  hold=${keeper_pipe[1]}
  while read -r -t 60 word text <&"$from"; do
    case $word in
      pid) echo "$text $(started "$text")" >"$state/keeper" ;;
      ready) break ;;
    esac
  done
  [[ $word == ready ]] ||
    die 1 "creating the lab of $words failed:" "$(sed 's/^/  /' "$state/log")"
  trap - EXIT
  exec {lock}<&- {from}<&-
}

address() { echo "10.77.0.$(($1 + 1))"; }
hardware() { printf '02:77:00:00:00:%02x' $(($1 + 1)); }

# ---- Inside the lab: the keeper and the nodes ----------------------------------------------------
be_keeper() {
  local i pid news
  # /proc is still that of the machine: the PID outside of the lab.
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
  # Reads "stay", or end of file when the process that created the lab ends: then the lab ends, too.
  read -r _ || exit 0
  exec </dev/null >/dev/null
  while :; do read -r _ <&"$news" || true; done
}

hosts_report() {
  local i tries
  for ((i = 0; i < hosts; i++)); do
    for ((tries = 20; tries > 0; tries--)); do
      ! read -r -t 1 _ <&"$1" || continue 2
      [[ -e $state/settings ]] || exit 1  # the creating process was killed, and the lab is removed
    done
    echo "only $i of $hosts nodes came up within 20 s" >&2
    exit 1
  done
}

# Links carry only the traffic of programs: no IPv6 router discovery.
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

# ---- The network between the nodes ---------------------------------------------------------------
on_network() {  # on_network I COMMAND...: in the network namespace of node I
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

limit_link() {  # limit_link I: both directions of the link of node I
  local queue=(root tbf rate "${bits}bit" burst "${burst}b" limit "${limit}b")
  tc qdisc replace dev "port$1" "${queue[@]}"
  on_network "$1" tc qdisc replace dev eth0 "${queue[@]}"
}

change_rate() {  # change_rate RATE: of all links
  local i pids words
  read -ra pids <"$state/pids"
  check_rate "the rate" "$1"
  choose_queue
  for ((i = 0; i < hosts; i++)); do
    if ((bits > 0)); then
      limit_link "$i"
    else
      tc qdisc del dev "port$i" root 2>/dev/null || true # no queue to delete
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
  # Static neighbour entries: no ARP on the links.
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

# ---- Commands on nodes ---------------------------------------------------------------------------
# number_of HOST: sets `host`; 2 for host2.
number_of() {
  host=${1#host}
  [[ $host =~ ^[0-9]{1,3}$ && $((10#$host)) -lt $hosts ]] ||
    wrong_call "there is no node '$1'; the lab '$name' has host0 to host$((hosts - 1))"
  host=$((10#$host))
}

# From outside: runs this script again inside the lab; it gets SIGTERM when the calling process is
# killed.
enter_lab() {
  exec nsenter --target "$keeper" --pid --net --mount --wdns="$PWD" \
    setpriv --pdeathsig TERM "$self" "$@"
}

# From inside. MPI launchers use this as their rsh: they start daemons from the first node.
enter_host() {
  local pids
  read -ra pids <"$state/pids"
  [[ -d /proc/${pids[$1]} ]] ||
    die 1 "host$1 of the lab '$name' has ended; 'lab.sh down --name $name' removes the lab"
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
# find_launcher WORDS PROGRAM...: sets `launcher` to the first program whose --version contains
# WORDS.
find_launcher() {
  local words=$1
  shift
  for launcher; do
    [[ "$("$launcher" --version 2>/dev/null </dev/null || true)" != *"$words"* ]] || return 0
  done
  die 77 "no launcher of $mpi was found; tried $*, whose --version must contain '$words'"
}

# of_this_mpi OTHER LIBRARY PROGRAM: refuses a program built with the OTHER MPI, whose ranks would
# each be a job of one rank.
of_this_mpi() {
  local path
  path=$(command -v -- "$3") || wrong_call "there is no program '$3'"
  [[ "$(ldd "$path" 2>/dev/null || true)" != *"$2"* ]] ||
    wrong_call "$3 was built with $1, but 'run $mpi' was called"
}

# default NAME VALUE: exports it unless the environment already has NAME.
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

  # Only TCP: nodes share the memory of the machine, real nodes do not.
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
  # In the background, so that traps run at once; with the standard input and the signal handling
  # of a foreground process.
  HCOMP_LAB=$name HCOMP_LAB_TOOLS=$tools \
    env --default-signal=INT,QUIT "${called[@]}" <&0 {hold}>&- &
  child=$!
  wait "$child"
}

end_with() {
  trap '' HUP INT TERM
  disown -a  # else bash reports that it was killed
  kill "$child" 2>/dev/null || true
  take_turn
  remove_lab
}

# ---- Command line --------------------------------------------------------------------------------
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
    ((${#rest[@]} == 1)) || wrong_call "'rate' needs one rate, e.g. 100mbit or none"
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
      die 1 "the lab '$name' has delay, loss or cards; its rate cannot be changed"
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
