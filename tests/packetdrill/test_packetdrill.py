# SPDX-License-Identifier: GPL-2.0-only
"""The interpreter of packetdrill's scripts, and what Linux does that tcp/ did not before scripts showed it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import binding  # noqa: E402
import language  # noqa: E402
import runner  # noqa: E402
from interpreter import Verdict, run  # noqa: E402

SHARED = ROOT.parent / "shared" / "packetdrill"

#: A server of ten segments of 1000 bytes, 100 ms away. Twelve lines.
STANDS = "on a connection that stands"
SERVER = """`../common/defaults.sh`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
   +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
  +.1 < . 1:1(0) ack 1 win 1024
   +0 accept(3, ..., ...) = 4
   +0 write(4, ..., 10000) = 10000
   +0 > P. 1:10001(10000) ack 1

"""


@pytest.fixture(scope="session")
def tcp() -> binding.Binding:
    return binding.load()


@pytest.fixture
def verdict(tcp: binding.Binding) -> Callable[..., Verdict]:
    """The result of what a script says after a beginning, SERVER."""
    return lambda rest, after=SERVER: run(language.parse(after + rest, "own.pkt"), tcp)


def reason(result: Verdict) -> str:
    assert result.result != "passes", "it passes"
    return f"{result.result} at {result.line}: {result.reason}"


# ---- the language -----------------------------------------------------------------------------------------

CONSTRUCTS = [
    "--tolerance_usecs=20000\n--ip_version=ipv4\n--define=N=5\n--local_ip=192.168.0.1\n`first`\n0 close(3) = 0\n`last`",
    "0 < S 0:0(0) win 1000 <mss 1000,nop,eol,sackOK,wscale 7,TS val 1 ecr 0,md5 a1b2,FO,FO 1234abcd,FOEXP>",
    "+0 > S. 0:0(0) ack 1 <...>",
    "+.1~+.2 > FP. 1:11(9) ack 1 win 5 urg 3 <nop,nop,sack 1:2 3:4>".replace("1:11(9)", "1:10(9)"),
    "0.1~0.2 < R 1:1(0) win 0",
    "* > . 1:1(0) ack 1",
    "0 > - 1:1(0)",
    "0 < [ect0] . 1:1(0) ack 1 win 1",
    "0 < (tos 0x3) SEW 0:0(0) win 1",
    "0 > [ttl 64] . 1:1(0) ack 1",
    "0 > [ect01, flowlabel 0x12] . 1:1(0) ack 1",
    "0 < [noecn] 8080 > 1234 E. 1:1(0) ack 1 win 1",
    "0 < ipv6 2001:db8::1 > ::1: . 1:1(0) ack 1 win 1",
    "0 < gre flags [checksum present, key present], sum 0x0, off 0x0, key = 0x1, seq 0x2: . 1:1(0) ack 1 win 1",
    "0 > udp (10)",
    "0 < icmp unreachable frag_needed mtu 1400 [1:1001(1000)]",
    "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3",
    "0...0.5 read(3, ..., 1000) = -1 EAGAIN (Resource temporarily unavailable)",
    "0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0x2 (flags O_RDWR)",
    '0 f(3, {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr("1.2.3.4")}, ...) = 0',
    '0 f(inet6_addr("::1")) = 0',
    "0 sendmsg(3, {msg_name(...)=..., msg_iov(2)=[{..., 10}, {..., 20}], msg_flags=0, msg_control=[]}, 0) = 30",
    "0 f({cmsg_level=SOL_IP, cmsg_type=IP_TOS, cmsg_data=[0x1]}) = 0",
    "0 f({scm_sec=1,scm_nsec=2}, {ee_errno=1, ee_origin=2, ee_type=3, ee_code=4, ee_info=5, ee_data=6}) = 0",
    "0 poll([{fd=3, events=POLLIN|POLLOUT, revents=POLLIN}], 1, 0) = 1",
    "0 f({onoff=1, linger=0}, {events=EPOLLIN, fd=3}, {events=0, ptr=1}, {events=0, u32=1}, {events=0, u64=1}) = 0",
    '0 f({1, 2}, [], "a"..., a=1) = ...',
    "0 %{ assert tcpi_rtt > 0 }% // with\n/* comments */ 0 `command`\n+0 close(3) = 0 (a note)",
]


@pytest.mark.parametrize("text", CONSTRUCTS)
def test_each_construct_of_the_grammar_is_read(text: str) -> None:
    assert language.parse(text).events


def test_what_is_read_is_what_was_said() -> None:
    script = language.parse(
        '+.1~+.2 < [ce] FP. 1:3(2) ack 7 win 9 <sack 1:2 3:4>\n0...1 write(4, "ab"..., 2|X) = -1 E (no)'
    )
    packet = script.events[0].action
    assert isinstance(packet, language.Packet)
    assert (packet.direction, packet.ip, script.events[0].time) == ("<", {"ecn": "ce"}, language.Time("+", 0.1, 0.2))
    sack = language.Option("sack", (), ((1, 2), (3, 4)))
    assert packet.tcp == language.Tcp("FP.", 1, 3, 2, 7, 9, None, (sack,))
    argument = language.Operation("|", 2, language.Word("X"))
    assert script.events[1].action == language.Syscall("write", (4, language.Text("ab", True), argument), -1, "E", 1.0)


def test_words_are_replaced_as_the_script_and_the_command_line_say() -> None:
    script = language.parse("--define=SIZE=7\n0 f(SIZE, NAME) = 0", defines={"NAME": '"x"'})
    call = script.events[0].action
    assert isinstance(call, language.Syscall)
    assert call.arguments == (7, language.Text("x"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 close(3) = 0\n+0 > X. 1:1(0)", "own.pkt:2: flags of F, S, R, P, U, E, W, A or . expected, 'X' found"),
        ("0 close(3) = 0\n\n+0 > . 1:5(3)", "own.pkt:3: 1:4(3) expected"),
        ("0 close(3 = 0", "own.pkt:1: ')' expected"),
        ("0 > . 1:1(0) <mss>", "own.pkt:1: integer expected, '>' found"),
        (
            "0 > . 1:1(0) <bogus 3>",
            "own.pkt:1: nop, eol, mss, wscale, sackOK, sack, md5, TS, FO, FOEXP or ECN expected",
        ),
        ("0 > [ect7] . 1:1(0)", "own.pkt:1: noecn or ect0 or ect1 or ce or ect01 or tos or flowlabel or ttl expected"),
        ("0 `never", "own.pkt:1: a closing ` expected"),
        ("\n0 %{ assert", "own.pkt:2: a closing }% expected"),
        ("--define=a=1\n", "own.pkt:2: an event expected, end of text found"),
    ],
)
def test_an_error_names_file_and_line(text: str, message: str) -> None:
    with pytest.raises(language.ScriptError) as error:
        language.parse(text, "own.pkt")
    assert str(error.value).startswith(message)


# ---- scripts that pass, that are wrong, that are not run ------------------------------------------------------


def test_a_true_script_passes(verdict) -> None:
    assert verdict("+.1 < . 1:1(0) ack 10001 win 1024\n+0 %{ assert tcpi_snd_cwnd == 20 }%").result == "passes"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "+0 > . 1:1001(1000) ack 1",
            "wrong at 13: '. 1:1001(1000) ack 1' expected, but the packet is 'P. 1:2001(2000)",
        ),
        ("+0 > P. 1:2001(2000) ack 2", "wrong at 13: 'P. 1:2001(2000) ack 2' expected, but the packet is"),
        ("+0 > P. 1:2001(2000) ack 1 win 1", "wrong at 13: 'P. 1:2001(2000) ack 1 win 1' expected, but the packet is"),
        ("+0 > P. 1:2001(2000) ack 1 <nop,nop,sack 1:2>", "wrong at 13: "),
        ("+0 > P. 2001:4001(2000) ack 1", "wrong at 13: "),
        ("+.5 > P. 1:2001(2000) ack 1", "wrong at 13: the packet leaves at 0.100000 s, expected at 0.600000 s"),
        ("+0 > . 1:20001(20000) ack 1", "wrong at 13: '. 1:20001(20000) ack 1' expected, but"),
        (
            "+0 > P. 1:10001(10000) ack 1\n+0 > . 1:1(0) ack 2",
            "wrong at 15: '. 1:1(0) ack 2' expected, but the packet is",
        ),
        (
            "+0 %{ assert tcpi_snd_cwnd == 11, tcpi_snd_cwnd }%",
            "wrong at 13: 'assert tcpi_snd_cwnd == 11, tcpi_snd_cwnd' does not hold (10)",
        ),
        ("+0 write(9, ..., 1) = 1", "wrong at 13: write(): 9 is not an open descriptor"),
        ("+0 write(4, ..., 1) = 2", "wrong at 13: write() returns 1, expected 2"),
    ],
)
def test_what_is_not_so_is_wrong_and_names_its_line(verdict, line: str, message: str) -> None:
    unsent = SERVER.replace("   +0 > P. 1:10001(10000) ack 1\n", "\n")
    assert reason(verdict(line, unsent + "\n")).startswith(message.replace(" 13:", " 14:"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("+0 < R. 1:1(0) ack 1 win 1", "RST"),
        ("+0 < U. 1:2(1) ack 1 win 1 urg 1", "urgent data"),
        ("+0 < udp (10)", "packets of udp"),
        ("+0 < ipv6 ::1 > ::2: . 1:1(0) ack 1 win 1", "packets of ipv6"),
        ("+0 < S 1:1(0) win 1", "a SYN on a connection that stands"),
        ("+.1 < . 1:1(0) ack 1501 win 1", "an ACK inside a segment: tcp/ counts whole ones"),
        ("+0 send(4, ..., 10, MSG_OOB) = 10", "urgent data"),
        ("+0 write(4, NULL, 10) = -1 EFAULT (Bad address)", "the interface of sockets: bad addresses"),
        ("+0 poll([{fd=4, events=POLLIN}], 1, 0) = 0", "the interface of sockets: poll"),
        ("+0 setsockopt(4, SOL_TCP, TCP_INQ, [1], 4) = 0", "the interface of sockets: control messages"),
        ("+0 setsockopt(4, SOL_TCP, TCP_USER_TIMEOUT, [9], 4) = 0", "the interface of sockets: TCP_USER_TIMEOUT"),
        ("+0 setsockopt(4, SOL_SOCKET, SO_RCVBUF, [9], 4) = 0", f"a change of the receive buffer {STANDS}"),
        ("+0 `sysctl -q net.ipv4.tcp_syncookies=2`", "SYN cookies"),
        ("+0 `nstat | grep -q TcpExtBeyondWindow`", "the kernel's counters (nstat)"),
        ("+0 %{ assert SK_MEMINFO_RCVBUF }%", "the memory of a socket (SK_MEMINFO)"),
    ],
)
def test_what_tcp_does_not_model_is_named(verdict, line: str, message: str) -> None:
    assert reason(verdict(line)) == f"out of scope at 13: {message}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("+0 `reboot`", "command: 'reboot' is not known"),
        ("+0 `ethtool -K tun0 gro off`", "command: 'ethtool -K tun0 gro off' is not known"),
        ("+0 `sysctl -q net.ipv4.tcp_bogus=1`", "sysctl: tcp_bogus is not known"),
        ("+0 `sysctl -q net.ipv4.tcp_window_scaling=0`", "sysctl: tcp_window_scaling=0 is not known"),
        ("+0 `tc qdisc delete dev tun0 root`", "command: 'tc qdisc delete dev tun0 root' is not known"),
        ("+0 bogus(4) = 0", "system call: bogus() is not known"),
        ("+0 setsockopt(4, SOL_TCP, TCP_BOGUS, [1], 4) = 0", "setsockopt: TCP_BOGUS is not known"),
        ("+0 %{ tcpi_bogus }%", "tcp_info: tcpi_bogus is not known"),
        ("+0 %{ 1 / 0 }%", "code: ZeroDivisionError: division by zero"),
    ],
)
def test_what_the_tool_cannot_do_is_named(verdict, line: str, message: str) -> None:
    assert reason(verdict(line)) == f"not run at 13: {message}"


def test_a_peer_without_sack_is_out_of_scope_once_it_repeats_an_ack(verdict) -> None:
    plain = SERVER.replace("sackOK,nop,", "").replace("nop,nop,sackOK,", "")
    whole = plain + "+.1 < . 1:1(0) ack 10001 win 1024"
    assert verdict(whole, "").result == "passes"
    again = plain + "+.1 < . 1:1(0) ack 1 win 1024"
    assert reason(verdict(again, "")) == "out of scope at 13: duplicate ACKs of a peer without SACK"


def test_packets_count_as_one_only_if_they_follow_each_other(verdict) -> None:
    sent = "+.1 < . 1:1(0) ack 10001 win 1024\n+0 write(4, ..., 4000) = 4000\n"
    assert verdict(sent + "+0 > P. 10001:14001(4000) ack 1").result == "passes"
    assert verdict(sent + "+0 > P. 10001:12001(2000) ack 1\n+0 > P. 12001:14001(2000) ack 1").result == "passes"
    said = "expected, but the packet is 'P. 10001:12001(2000) ack 1 win 172', 'P. 12001:14001(2000) ack 1 win 172'"
    assert said in reason(verdict(sent + "+0 > P. 10001:13001(3000) ack 1"))


def test_the_script_of_an_older_kernel_passes_as_that(verdict) -> None:
    """Since Linux 6.0 an ACK with new losses makes up for packets not sent, but allows none more; 6.18 was measured."""
    script = """
  +.1 < . 1:1(0) ack 1 win 1024 <sack 1001:4001,nop,nop>
   +0 > . 1:1001(1000) ack 1
 +.12 < . 1:1(0) ack 4001 win 1024
   +0 %{ assert (tcpi_snd_cwnd, tcpi_lost, tcpi_retrans) == (WINDOW, 6, WINDOW), tcpi_snd_cwnd }%
"""
    results = {window: verdict(script.replace("WINDOW", str(window))).result for window in range(2, 6)}
    assert results == {2: "wrong", 3: "passes", 4: "passes as linux-5.10", 5: "wrong"}


# ---- what the scripts have shown -------------------------------------------------------------------------------

#: What Linux does, and a script that shows it.
LAWS = {
    # Linux's tcp_rack_advance keeps the RTT of the last segment, not of the newest.
    "a loss waits for the round trip of the last segment delivered": """
  +.1 < . 1:1(0) ack 1 win 1024 <sack 1001:2001,nop,nop>
   +0 < . 1:1(0) ack 1 win 1024 <sack 1001:3001,nop,nop>
   +0 < . 1:1(0) ack 1 win 1024 <sack 1001:3001 8001:9001,nop,nop>
   +0 > . 1:1001(1000) ack 1
+.112 < . 1:1(0) ack 4001 win 1024 <sack 8001:9001,nop,nop>
   +0 > . 4001:7001(3000) ack 1
   +0 %{ assert tcpi_unacked - tcpi_sacked - tcpi_lost == 1, "9001:10001 is not lost yet" }%
""",
    # Linux's tcp_rack_reo_timeout: one packet counts as delivered for the rate reduction; 2 ms of slack.
    "the reordering timer retransmits as much as an ack does": """
  +.1 < . 1:1(0) ack 1 win 1024 <sack 7001:8001,nop,nop>
+.027 > . 1:1001(1000) ack 1
   +0 %{ assert (tcpi_ca_state, tcpi_lost, tcpi_retrans) == (TCP_CA_Recovery, 7, 1) }%
   +0 %{ assert (tcpi_snd_cwnd, tcpi_snd_ssthresh) == (3, 7), tcpi_snd_cwnd }%
 +.12 < . 1:1(0) ack 1001 win 1024 <sack 7001:8001,nop,nop>
   +0 %{ assert (tcpi_snd_cwnd, tcpi_lost, tcpi_retrans) == (1, 8, 1), tcpi_snd_cwnd }%
""",
    # Linux's tcp_check_dsack: ten packets again, six acknowledged, and the one that came twice; 6.18 was measured.
    "what a d sack reports counts as delivered": """
  +.1 < . 1:1(0) ack 1 win 1024 <sack 1001:4001,nop,nop>
   +0 > . 1:1001(1000) ack 1
 +.02 < . 1:1(0) ack 4001 win 1024
 +.09 < . 1:1(0) ack 10001 win 1024 <sack 1:1001,nop,nop>
   +0 %{ assert (tcpi_snd_cwnd, tcpi_ca_state, tcpi_dsack_dups) == (17, TCP_CA_Open, 1), tcpi_snd_cwnd }%
""",
    "reordering is counted by its distance": """
  +.1 < . 1:1(0) ack 1 win 1024 <sack 9001:10001,nop,nop>
   +0 < . 1:1(0) ack 1 win 1024 <sack 3001:4001 9001:10001,nop,nop>
   +0 < . 1:1(0) ack 10001 win 1024
   +0 %{ assert (tcpi_reordering, tcpi_reord_seen) == (10, 2), (tcpi_reordering, tcpi_reord_seen) }%
""",
    # Linux's tcp_ack.
    "an ack of what was never sent is challenged and dropped whole": """
  +.1 < F. 1:1(0) ack 20001 win 1024
   +0 > . 10001:10001(0) ack 1
   +0 %{ assert tcpi_unacked == 10 }%
""",
}


@pytest.mark.parametrize("law", LAWS)
def test_a_law_that_scripts_have_shown(verdict, law: str) -> None:
    assert str(verdict(LAWS[law])) == "own.pkt: passes"


@pytest.mark.parametrize(("sent", "grown"), [(5, 10), (6, 12), (9, 18), (10, 20)])
def test_slow_start_grows_to_twice_the_flight(verdict, sent: int, grown: int) -> None:
    """Linux's tcp_is_cwnd_limited, for an application that does not fill the window."""
    lone = SERVER.replace("10000", f"{sent}000").replace("10001", f"{sent}001")
    acks = "".join(f"+.1 < . 1:1(0) ack {n}001 win 1024\n" for n in range(1, sent + 1))
    check = f"+0 %{{ assert tcpi_snd_cwnd == {grown}, tcpi_snd_cwnd }}%"
    assert str(verdict(acks + check, lone)) == "own.pkt: passes"


def test_a_fin_forgets_what_was_to_be_reported_and_an_ack_that_is_due_stays_due(verdict) -> None:
    """tcp_fin: no SACK block is left, and of ten segments with a FIN the ACK leaves at once."""
    read = (
        "+.1 < . 1:1(0) ack 10001 win 1024\n+0 < P. 1:1001(1000) ack 10001 win 1024\n+0 > . 10001:10001(0) ack 1001\n"
    )
    again = "+.01 < FP. 1:1001(1000) ack 10001 win 1024\n+0~+.041 > . 10001:10001(0) ack 1002"
    assert str(verdict(read + again)) == "own.pkt: passes"
    assert "sack" in reason(verdict(read + again.replace("FP", "P").replace("1002", "1001")))
    full = "+.01 < FP. 1001:11001(10000) ack 10001 win 1024\n+0 > . 10001:10001(0) ack 11002"
    assert str(verdict(read + full)) == "own.pkt: passes"


SMALL_WINDOW = """
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 setsockopt(3, SOL_SOCKET, SO_RCVBUF, [BUFFER], 4) = 0
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
   +0...0.1 accept(3, ..., ...) = 4
  +.05 < S 0:0(0) win 1000 <mss 1000,sackOK,nop,nop,nop,wscale 0>
   +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale SCALE>
  +.05 < . 1:1(0) ack 1 win 1000
   +0 write(4, ..., 1000) = 1000
   +0 > P. 1:1001(1000) ack 1
  +.1 < . 1:1(0) ack 1001 win 1000
   +0 write(4, ..., 1000) = 1000
   +0 > P. 1001:2001(1000) ack 1
  +.1 < . 1:1(0) ack 2001 win 1000
"""


def small_window(buffer_bytes: int = 100_000, scale: int = 1) -> str:
    return SMALL_WINDOW.replace("BUFFER", str(buffer_bytes)).replace("SCALE", str(scale))


@pytest.mark.parametrize(("limit_ms", "answers"), [(500, (True, False, True)), (0, (True, True, True))])
def test_acks_too_old_are_challenged_as_often_as_the_sysctl_allows(
    verdict, limit_ms: int, answers: tuple[bool, ...]
) -> None:
    """RFC 5961: those below the largest window before what is acknowledged (tcp_ack, tcp_send_challenge_ack)."""
    text = f"`sysctl -q net.ipv4.tcp_invalid_ratelimit={limit_ms}`\n{small_window()}+1 < . 1:1(0) ack 1001 win 1000\n"
    for after_s, is_answered in zip((1, 0.2, 0.4), answers, strict=True):
        text += f"+{after_s} < . 1:1(0) ack 1000 win 1000\n" + "+0 > . 2001:2001(0) ack 1\n" * is_answered
    assert str(verdict(text, "")) == "own.pkt: passes"


@pytest.mark.parametrize(
    ("buffer_bytes", "scale"), [(30_000, 0), (65_535, 0), (65_536, 1), (1_000_000, 4), (6_250_000, 7)]
)
def test_the_window_scale_provides_for_half_of_the_receive_buffer(verdict, buffer_bytes: int, scale: int) -> None:
    """Of what setsockopt takes it for, which is twice the number given (tcp_select_initial_window)."""
    for given, result in ((scale, "passes"), (scale + 1, "wrong")):
        assert verdict(small_window(buffer_bytes, given), "").result == result


def test_an_accept_returns_when_the_handshake_ends(verdict) -> None:
    late = small_window().replace("+0...0.1 accept", "+0...0.2 accept")
    assert "accept() returns at 0.100000 s, expected at 0.200000 s" in reason(verdict(late, ""))


def test_a_device_without_offload_takes_segment_by_segment(verdict) -> None:
    """PSH is in the last one of a burst, here of two segments and one (tcp_gso_segment)."""
    write = "+.1 < . 1:1(0) ack 10001 win 1024\n+0 write(4, ..., 3000) = 3000\n"
    burst = "+0 > P. 10001:13001(3000) ack 1"
    single = "+0 > . 10001:11001(1000) ack 1\n+0 > P. 11001:12001(1000) ack 1\n+0 > P. 12001:13001(1000) ack 1"
    assert [verdict(write + one).result for one in (burst, single)] == ["passes", "wrong"]
    off = "+.05 `ethtool -K tun0 tso off gso off`\n" + write.replace("+.1", "+.05")
    assert verdict(off + single).result == "passes"


# ---- other people's scripts -------------------------------------------------------------------------------------


def test_their_scripts_do_as_linux_does(tcp: binding.Binding) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"PACKETDRILL'S SCRIPTS ARE NOT AT {SHARED}: none is run")
    found = [runner.run_file(path, tcp) for path in runner.scripts([SHARED])]
    assert found
    assert [str(one) for one in found if one.result in ("wrong", "not run")] == []


def test_the_command_prints_a_table_and_fails_if_a_script_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "right.pkt").write_text(SERVER)
    (tmp_path / "wrong.pkt").write_text(SERVER + "+0 %{ assert False }%\n")
    (tmp_path / "unread.pkt").write_text("0 > bogus")
    command = [sys.executable, str(HERE), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    rows = {Path(line.split()[0]).name: line for line in done.stdout.splitlines() if ".pkt" in line.split(" ")[0]}
    assert done.returncode == 1, done.stderr
    assert rows["right.pkt"].endswith("passes")
    assert "wrong" in rows["wrong.pkt"]
    assert "line 13: 'assert False' does not hold" in rows["wrong.pkt"]
    assert "not run" in rows["unread.pkt"]
    assert "unread.pkt:1:" in rows["unread.pkt"]
    assert done.stdout.splitlines()[-1] == "1 passes, 1 not run, 1 wrong"
