#!/usr/bin/env python3
"""Trials of 'mpps search --trial-command' by a TRex server in stateless mode.

    mpps search --trial-command 'examples/adapters/trex.py --server 192.0.2.9' --max-pps 14.88M

TRex (t-rex-64 -i) has two ports, which the device under test connects. Frames go from the
first of --ports to the second, with --two-way in both directions at once; rates and counts
are then those of both together. The client's library comes with TRex: --client names its
directory automation/trex_control_plane/interactive, unless PYTHONPATH has it.

The counts are those of the ports: other frames that reach them, such as LLDP, hide as many
losses. Switch such protocols off. A trial that received clearly more than it sent is refused.

The interface is that of TRex v2.60 and later, as its own sources document and use it
(scripts/automation/trex_control_plane/interactive/trex of cisco-system-traffic-generator/trex-core):
stl/trex_stl_client.py (connect, acquire, reset, add_streams, clear_stats, start, wait_on_traffic,
get_stats, disconnect), stl/trex_stl_packet_builder_scapy.py (STLPktBuilder, STLVM),
stl/trex_stl_streams.py (STLStream, STLTXCont), examples/stl/stl_bi_dir_flows.py, and for sizes,
which the hardware makes 4 bytes longer, scripts/stl/bench.py.
"""
import argparse
import json
import os
import signal
import sys
import time

FCS = 4
SMALLEST, LARGEST = 64, 9216  # frames with FCS, as in scripts/stl/bench.py


class Failed(Exception):
    """There was no trial, and why."""


def arguments():
    p = argparse.ArgumentParser(description="trials by TRex, a line of JSON each")
    p.add_argument("--server", default="localhost", help="host of the TRex server")
    p.add_argument("--ports", default="0,1", metavar="A,B", help="port that sends, port that receives")
    p.add_argument("--two-way", action="store_true", help="send in both directions; rates are those of both together")
    p.add_argument("--flows", type=int, default=16, help="distinct source addresses and ports")
    p.add_argument("--dst-mac", default="", metavar="MAC[,MAC]", help="destination of A's frames and of B's (default: as TRex is configured)")
    p.add_argument("--late", type=float, default=2, metavar="S", help="seconds to wait for late frames (RFC 2544: 2)")
    p.add_argument("--force", action="store_true", help="take the ports from whoever holds them")
    p.add_argument("--client", default="", metavar="DIR", help="directory that holds TRex's Python package")
    args = p.parse_args()
    try:
        args.ports = [int(n) for n in args.ports.split(",")]
    except ValueError:
        args.ports = []
    args.dst_mac = args.dst_mac.split(",") if args.dst_mac else []
    if len(set(args.ports)) != 2:
        p.error("--ports: expected two different ports, such as 0,1")
    if len(args.dst_mac) > 2 or not 1 <= args.flows <= 16384 or args.late < 0:
        p.error("expected up to two MACs, 1 to 16384 flows and no negative wait")
    return args


class Tester:
    """A TRex server and what is known of it. It is connected to at the first trial, which can answer for failures."""

    def __init__(self, args):
        self.args = args
        self.api = self.client = None
        self.senders = args.ports if args.two_way else args.ports[:1]

    def connect(self):
        # The client's package has the name of this file, whose directory Python would search first.
        here = os.path.dirname(os.path.realpath(__file__))
        sys.path[:] = ([self.args.client] if self.args.client else []) + [d for d in sys.path if os.path.realpath(d) != here]
        try:
            from trex.stl import api
        except ImportError as e:
            raise Failed("TRex's Python client is not there (%s): name its directory by --client" % e)
        client = api.STLClient(server=self.args.server)
        try:
            client.connect()
        except api.TRexError as e:
            raise Failed("cannot connect to TRex at %s: %s" % (self.args.server, e))
        self.api, self.client = api, client
        have = client.get_all_ports()
        missing = [n for n in self.args.ports if n not in have]
        if missing:
            self.close()
            raise Failed("TRex at %s has no port %s: it has %s" % (self.args.server, missing[0], ", ".join(map(str, have)) or "none"))
        try:
            client.acquire(ports=self.args.ports, force=self.args.force)  # reset alone would take them from their owner
            client.reset(ports=self.args.ports)
        except api.TRexError as e:
            self.close()
            raise Failed("cannot use the ports: %s" % e)

    def stream(self, number, size, pps):
        """The frames of a direction: UDP within 198.18.0.0/15, whose source address and port vary together."""
        api, flows = self.api, self.args.flows
        near, far = ("198.18", "198.19") if number == 0 else ("198.19", "198.18")
        ether = api.Ether(dst=self.args.dst_mac[number]) if number < len(self.args.dst_mac) else api.Ether()
        # No UDP checksum (RFC 768): it would be that of the first flow.
        packet = ether / api.IP(src=near + ".0.1", dst=far + ".0.1", ttl=64) / api.UDP(sport=49152, dport=9, chksum=0)
        packet = packet / ("x" * (size - FCS - len(packet)))
        vm = None
        if flows > 1:
            addresses = min(flows, 250)
            ports = -(-flows // addresses)
            vm = api.STLVM()
            vm.tuple_var(name="flow", ip_min=near + ".0.1", ip_max="%s.0.%d" % (near, addresses),
                         port_min=49152, port_max=49152 + ports - 1, limit_flows=flows)
            vm.write(fv_name="flow.ip", pkt_offset="IP.src")
            vm.write(fv_name="flow.port", pkt_offset="UDP.sport")
            vm.fix_chksum(offset="IP")
        return api.STLStream(packet=api.STLPktBuilder(pkt=packet, vm=vm), mode=api.STLTXCont(pps=pps))

    def trial(self, pps, frame_bytes, seconds):
        if not SMALLEST <= frame_bytes <= LARGEST:
            raise Failed("frames of %d bytes: TRex has %d to %d, FCS included" % (frame_bytes, SMALLEST, LARGEST))
        if self.client is None:
            self.connect()
        client, ports, senders = self.client, self.args.ports, self.senders
        try:
            client.remove_all_streams(ports=ports)
            for number, port in enumerate(senders):
                client.add_streams(self.stream(number, frame_bytes, pps / len(senders)), ports=[port])
            client.clear_stats(ports=ports)
            client.start(ports=senders, mult="1", duration=seconds)  # TRex ends it by itself, whatever becomes of this program
            client.wait_on_traffic(ports=senders, timeout=seconds + 30)
            time.sleep(self.args.late)
            stats = client.get_stats(ports=ports)
        except self.api.TRexError as e:
            raise Failed("TRex: %s" % e)
        sent = sum(stats[port]["opackets"] for port in senders)
        received = sum(stats[port]["ipackets"] for port in (ports if self.args.two_way else ports[1:]))
        return {"sent": sent, "received": received, "seconds": seconds}

    def close(self):
        """Stops the traffic and gives the ports back."""
        client, self.client = self.client, None
        if client is not None:
            try:
                client.disconnect(stop_traffic=True, release_ports=True)
            except self.api.TRexError as e:
                sys.stderr.write("disconnect: %s\n" % e)


def checked(answer):
    """An answer whose stray frames are not taken for frames of the trial."""
    sent, received = answer["sent"], answer["received"]
    if received > sent + max(10, sent // 1000):
        raise Failed("received %d frames of %d sent: the ports have other traffic, or the device doubles frames" % (received, sent))
    answer["received"] = min(sent, received)
    return answer


def stop(signum, _):
    raise SystemExit(128 + signum)


def main():
    args = arguments()
    # What a library prints belongs to people: standard output is for answers alone.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
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
