#!/usr/bin/env python3
"""Trials of 'mpps search --trial-command' by pktgen-dpdk.

    mpps search --trial-command 'examples/adapters/pktgen-dpdk.py --server 192.0.2.9' --max-pps 14.88M

pktgen runs with its socket open (-G, or -g ADDRESS for another than localhost) and has two ports,
which the device under test connects. Frames go from the first of --ports to the second, with
--two-way in both directions at once; rates and counts are then those of both together. pktgen
addresses frames to MAC 00:00:00:00:00:00 unless told otherwise: a device that is not just a wire
wants --dst-mac. Its rate is a percentage of the line rate, so the link must be up.

The counts are those of the ports: other frames that reach them, such as LLDP, hide as many
losses. Switch such protocols off. A trial that received clearly more than it sent is refused.

The interface is that of pktgen-dpdk 19.12 to 25.08, as its documents and sources have it
(pktgen/Pktgen-DPDK): docs/source/socket.rst (a Lua shell without a prompt on TCP port 22022, for one
client at a time), docs/source/usage_pktgen.rst (-G), scripts/rfc2544.lua (the commands in use),
app/lpktgenlib.c (set, range, set_range, start, stop, portStats, portInfo, linkState), Pktgen.lua
(io.write and io.flush reach the socket; errors go to pktgen's console and not to the client,
hence pcall around everything), lib/lua/lua_socket.c and lua_config.h (lines below 2 KiB).
"""
import argparse
import json
import os
import re
import signal
import socket
import sys
import time

SMALLEST, LARGEST = 64, 9216  # frames with FCS; pktgen tells what it made of it
GAP = 20  # bytes of preamble and gap between frames
MOST_FRAMES = 1 << 32  # its count has 32 bits
PATIENCE = 10  # seconds for an answer
MOST_LINE = 64 << 10  # bytes that are read of a line at once

# Says a numbered word about what pcall returned.
SAY = ('function mpps(n, ok, v) io.write("mpps ", n, " ", ok and "ok" or "error", " ", '
       '(string.gsub(tostring(v), "%s+", " ")), "\\n") io.flush() end')


class Failed(Exception):
    """There was no trial, and why."""


def arguments():
    p = argparse.ArgumentParser(description="trials by pktgen-dpdk, a line of JSON each")
    p.add_argument("--server", default="localhost:22022", metavar="HOST[:PORT]", help="where pktgen's socket is (port: 22022)")
    p.add_argument("--ports", default="0,1", metavar="A,B", help="port that sends, port that receives")
    p.add_argument("--two-way", action="store_true", help="send in both directions; rates are those of both together")
    p.add_argument("--flows", type=int, default=16, help="distinct source addresses and ports")
    p.add_argument("--dst-mac", default="", metavar="MAC[,MAC]", help="destination of A's frames and of B's")
    p.add_argument("--late", type=float, default=2, metavar="S",
                   help="seconds to wait for late frames (RFC 2544: 2); pktgen counts once a second, so not below 1.5")
    args = p.parse_args()
    host, _, port = args.server.partition(":")
    try:
        args.server = (host, int(port or 22022))
        args.ports = [int(n) for n in args.ports.split(",")]
    except ValueError:
        p.error("expected numbers in --server HOST:PORT and --ports A,B")
    args.dst_mac = args.dst_mac.split(",") if args.dst_mac else []
    if len(set(args.ports)) != 2:
        p.error("--ports: expected two different ports, such as 0,1")
    if len(args.dst_mac) > 2 or any(not re.fullmatch("([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}", m) for m in args.dst_mac):
        p.error("--dst-mac: expected one or two MAC addresses")
    if not 1 <= args.flows <= 16384 or args.late < 0:
        p.error("expected 1 to 16384 flows and no negative wait")
    return args


def lua(value):
    if isinstance(value, str):
        return '"%s"' % value
    return "%d" % value if isinstance(value, int) else "%.9g" % value


class Tester:
    """A pktgen and what is known of it. It is connected to at the first trial, which can answer for failures."""

    def __init__(self, args):
        self.args = args
        self.socket = self.answers = None
        self.asked = 0
        self.touched = []  # ports that were set
        self.senders = args.ports if args.two_way else args.ports[:1]

    def get(self, expression):
        """The value of an expression in Lua, "nil" where it has none."""
        self.asked += 1
        try:
            self.socket.sendall(b"mpps(%d, pcall(function() return %s end))\n" % (self.asked, expression.encode()))
            latest = time.monotonic() + PATIENCE
            for line in iter(lambda: self.answers.readline(MOST_LINE), b""):
                if time.monotonic() > latest:
                    raise Failed("pktgen at %s:%d talks without an answer" % self.args.server)
                words = line.decode(errors="replace").split(None, 3)
                if words[:2] != ["mpps", str(self.asked)]:
                    continue  # it has a console's habits
                text = words[3].strip() if len(words) > 3 else ""
                if words[2] == "ok":
                    return text
                raise Failed("pktgen: %s: %s" % (expression, text))
        except socket.timeout:
            raise Failed("pktgen at %s:%d does not answer: another client may hold its socket" % self.args.server)
        except OSError as e:
            raise Failed("pktgen at %s:%d: %s" % (self.args.server + (e,)))
        raise Failed("pktgen at %s:%d closed the connection" % self.args.server)

    def call(self, name, *values):
        return self.get("pktgen.%s(%s)" % (name, ", ".join(map(lua, values))))

    def connect(self):
        try:
            self.socket = socket.create_connection(self.args.server, timeout=PATIENCE)
        except OSError as e:
            raise Failed("cannot connect to pktgen at %s:%d: %s; it opens its socket with -G" % (self.args.server + (e,)))
        self.answers = self.socket.makefile("rb")
        try:
            self.socket.sendall(SAY.encode() + b"\n")
            for port in self.args.ports:
                if self.get('pktgen.linkState("%d")[%d]' % (port, port)) == "nil":
                    raise Failed("pktgen has no port %d: it has %s" % (port, self.get("pktgen.portCount()")))
            for number, port in enumerate(self.senders):
                self.touched.append(str(port))
                self.prepare(number, str(port))
        except BaseException:
            self.close()
            raise
        time.sleep(self.args.late)  # for what was under way

    def prepare(self, number, port):
        """Frames of a direction: UDP within 198.18.0.0/15, whose source address and port vary together."""
        near, far = ("198.18", "198.19") if number == 0 else ("198.19", "198.18")
        last = self.args.flows - 1
        self.call("stop", port)
        self.call("set_type", port, "ipv4")
        self.call("set_proto", port, "udp")
        self.call("range.ip_proto", port, "udp")
        if number < len(self.args.dst_mac):
            self.call("set_mac", port, "dst", self.args.dst_mac[number])
            self.call("range.dst_mac", port, "start", self.args.dst_mac[number])
        address = (last + 1) // 256, (last + 1) % 256
        for name, first, step, most in (
                ("src_ip", near + ".0.1", "0.0.0.1", "%s.%d.%d" % (near, *address)),
                ("dst_ip", far + ".0.1", "0.0.0.0", far + ".0.1"),
                ("src_port", 49152, 1, 49152 + last),
                ("dst_port", 9, 0, 9)):
            for what, value in (("start", first), ("inc", step), ("min", first), ("max", most)):
                self.call("range." + name, port, what, value)
        self.call("set_range", port, "on")

    def load(self, port, size, pps, seconds):
        """Sets the load of a port."""
        link = self.get('pktgen.linkState("%s")[%s]' % (port, port))
        speed = re.search("[0-9]+", link)
        if not speed:
            raise Failed("port %s has no link: %s" % (port, link))
        line = int(speed.group()) * 10**6 // ((size + GAP) * 8)  # frames a second, rounded down as pktgen does
        self.call("set", port, "size", size)
        for what in ("start", "min", "max"):
            self.call("range.pkt_size", port, what, size)
        self.call("range.pkt_size", port, "inc", 0)
        made = self.get('pktgen.portInfo("%s")[%s].info.pkt_size' % (port, port))
        if made not in ("nil", str(size)):
            raise Failed("frames of %d bytes: pktgen makes them %s" % (size, made))
        self.call("set", port, "rate", min(100.0, 100 * pps / line))
        # An end of its own, should this program not live to stop it.
        most = int(pps * (1.5 * seconds + 5))
        self.call("set", port, "count", most if most < MOST_FRAMES else 0)

    def counters(self):
        """Frames sent and received by each port so far. Clearing them means different things to different versions."""
        both = {}
        for port in self.args.ports:
            text = self.get('string.format("%%.0f %%.0f", pktgen.portStats("%d", "port")[%d].opackets, '
                            'pktgen.portStats("%d", "port")[%d].ipackets)' % (port, port, port, port))
            both[port] = [int(n) for n in text.split()]
        return both

    def trial(self, pps, frame_bytes, seconds):
        if not SMALLEST <= frame_bytes <= LARGEST:
            raise Failed("frames of %d bytes: pktgen has %d to %d at the most, FCS included" % (frame_bytes, SMALLEST, LARGEST))
        if self.socket is None:
            self.connect()
        for port in self.senders:
            self.load(str(port), frame_bytes, pps / len(self.senders), seconds)
        before = self.counters()
        everyone = ",".join(map(str, self.senders))
        try:
            began = self.moment("start", everyone)
            time.sleep(seconds)
        finally:
            ended = self.moment("stop", everyone)
        time.sleep(self.args.late)
        after = self.counters()
        sent = sum(after[port][0] - before[port][0] for port in self.senders)
        received = sum(after[port][1] - before[port][1] for port in (self.args.ports if self.args.two_way else self.args.ports[1:]))
        return {"sent": sent, "received": received, "seconds": ended - began}

    def moment(self, name, ports):
        """When a call took effect: the middle of the time that it took."""
        before = time.monotonic()
        self.call(name, ports)
        return (before + time.monotonic()) / 2

    def close(self):
        """Stops the traffic, and undoes what would surprise whoever uses pktgen next."""
        if self.socket is None:
            return
        try:
            for port in self.touched:
                self.call("stop", port)
                self.call("set", port, "count", 0)
                self.call("set_range", port, "off")
        except Failed as e:
            sys.stderr.write("%s\n" % e)
        self.socket.close()
        self.socket, self.touched = None, []


def checked(answer):
    """An answer whose stray frames are not taken for frames of the trial."""
    sent, received = answer["sent"], answer["received"]
    if received > sent + max(10, sent // 1000):
        raise Failed("received %d frames of %d sent: the ports have other traffic, or the device doubles frames" % (received, sent))
    if sent < 0 or received < 0:
        raise Failed("pktgen's counters went back: somebody cleared them")
    answer["received"] = min(sent, received)
    return answer


def stop(signum, _):
    raise SystemExit(128 + signum)


def main():
    args = arguments()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # standard output is for answers alone
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    tester = Tester(args)
    try:
        for line in iter(sys.stdin.readline, ""):
            try:
                answer = checked(tester.trial(**json.loads(line)))
            except Failed as e:
                answer = {"error": " ".join(str(e).split())}
            except Exception as e:
                answer = {"error": "%s: %s" % (type(e).__name__, " ".join(str(e).split()))}
            out.write(json.dumps(answer) + "\n")
            out.flush()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        tester.close()


if __name__ == "__main__":
    main()
