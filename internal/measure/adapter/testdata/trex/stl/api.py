"""A fake of TRex's stateless client with a simulated device behind it.

It has the names, arguments, defaults, checks and messages of TRex v2.60's own sources, below
scripts/automation/trex_control_plane/interactive/trex: stl/trex_stl_client.py, stl/trex_stl_streams.py,
stl/trex_stl_packet_builder_scapy.py, common/trex_exceptions.py, common/trex_psv.py (messages of ports in the
wrong state); packets are as scapy's as far as lengths go. What the adapter does not use is left out.

FAKE_TREX is JSON: capacity (frames a second and direction), server (its host), ports, owner (who holds them),
stray (frames that a port receives beside those of a trial), log (a file of what happened, a line of JSON each).
"""
import json
import os
import time

SETUP = {"capacity": 1e6, "server": "localhost", "ports": 2, "owner": "", "stray": 0, "log": os.devnull}
SETUP.update(json.loads(os.environ.get("FAKE_TREX", "{}")))
LINK = 10e9  # bits a second


def note(event, **what):
    with open(SETUP["log"], "a") as log:
        log.write(json.dumps(dict(what, event=event)) + "\n")


class TRexError(Exception):
    def __init__(self, msg):
        super(TRexError, self).__init__(msg)
        self.msg = str(msg)


class TRexArgumentError(TRexError):
    def __init__(self, name, got):
        super(TRexArgumentError, self).__init__("Argument: '{0}' invalid value: '{1}'".format(name, got))


class TRexTypeError(TRexError):
    def __init__(self, arg_name, arg_type, valid_types):
        super(TRexTypeError, self).__init__("Argument: '%s' invalid type: '%s', expecting type(s): %s." % (arg_name, arg_type.__name__, valid_types))


class TRexTimeoutError(TRexError):
    def __init__(self, timeout):
        super(TRexTimeoutError, self).__init__("Timeout: operation took more than '{0}' seconds".format(timeout))


STLError = TRexError


def validate_type(name, value, types):
    if not isinstance(value, types) or isinstance(value, bool):
        raise TRexTypeError(name, type(value), types)


class CTRexPacketBuildException(Exception):
    pass


class Packet:
    """A layer with what it carries, as scapy's."""

    header, fields = 0, ()

    def __init__(self, **fields):
        for name in fields:
            if name not in self.fields:
                raise AttributeError(name)
        self.values, self.payload = fields, b""

    def __truediv__(self, other):
        whole = type(self)(**self.values)
        if isinstance(self.payload, Packet):
            whole.payload = self.payload / other
        else:
            whole.payload = self.payload + other.encode() if isinstance(other, str) else other
        return whole

    def __len__(self):
        return self.header + len(self.payload)

    def layer(self, name):
        if type(self).__name__ == name:
            return self
        return self.payload.layer(name) if isinstance(self.payload, Packet) else None


class Ether(Packet):
    header, fields = 14, ("dst", "src", "type")


class IP(Packet):
    header, fields = 20, ("src", "dst", "ttl", "tos", "proto")


class UDP(Packet):
    header, fields = 8, ("sport", "dport", "len", "chksum")


class STLScVmRaw:
    def __init__(self, list_of_commands=None, cache_size=None):
        self.commands = list_of_commands or []


class STLVM(STLScVmRaw):
    def __init__(self):
        STLScVmRaw.__init__(self)

    def tuple_var(self, name, ip_min, ip_max, port_min, port_max, limit_flows=0):
        for number in (port_min, port_max, limit_flows):
            validate_type("tuple_var", number, int)
        self.commands.append(("tuple", name, ip_min, ip_max, port_min, port_max, limit_flows))

    def write(self, fv_name, pkt_offset, offset_fixup=0, add_val=0, byte_order="big"):
        self.commands.append(("write", fv_name, pkt_offset))

    def fix_chksum(self, offset="IP"):
        self.commands.append(("fix", offset))


class STLPktBuilder:
    def __init__(self, pkt=None, pkt_buffer=None, vm=None, path_relative_to_profile=False, build_raw=False, remove_fcs=True):
        validate_type("pkt", pkt, Packet)
        if vm is not None and not isinstance(vm, (STLScVmRaw, list)):
            raise CTRexPacketBuildException(-14, "Bad value for variable vm.")
        self.pkt, self.vm = pkt, vm.commands if isinstance(vm, STLScVmRaw) else vm or []
        names = [c[1] + end for c in self.vm if c[0] == "tuple" for end in (".ip", ".port")]
        for c in self.vm:
            if c[0] == "write":
                if c[1] not in names:
                    raise CTRexPacketBuildException(-11, "Variable %s does not exist  " % c[1])
                layer, field = c[2].split(".")
                if field not in pkt.layer(layer).fields:
                    raise CTRexPacketBuildException(-11, "no field " + c[2])


class STLTXCont:
    def __init__(self, pps=None, bps_L1=None, bps_L2=None, percentage=None):
        validate_type("pps", pps, (float, int))
        self.pps = pps


class STLStream:
    def __init__(self, name=None, packet=None, mode=None, enabled=True, self_start=True, isg=0.0, flow_stats=None, next=None):
        validate_type("packet", packet, STLPktBuilder)
        validate_type("mode", mode, STLTXCont)
        self.packet, self.mode = packet, mode


class Port:
    def __init__(self):
        self.streams, self.acquired, self.until = [], False, 0.0
        self.opackets = self.ipackets = 0


class STLClient:
    def __init__(self, username="fake", server="localhost", sync_port=4501, async_port=4500, verbose_level="error", logger=None):
        self.server, self.ports = server, {}

    def connect(self):
        print("a library that prints")
        if self.server != SETUP["server"]:
            raise TRexError("no server at %s:4501" % self.server)
        self.ports = {n: Port() for n in range(SETUP["ports"])}

    def get_all_ports(self):
        return sorted(self.ports)

    def active(self):
        return [n for n in self.ports if self.ports[n].until > time.monotonic()]

    def validate(self, ports, acquired=True, idle=None):
        validate_type("ports", ports, (list, set, tuple))
        for wanted, have, text in ((True, list(self.ports), "invalid port IDs"),
                                   (acquired, [n for n in self.ports if self.ports[n].acquired], "must be acquired"),
                                   (idle, [n for n in self.ports if n not in self.active()], "are active")):
            bad = [n for n in ports if n not in have]
            if wanted and bad:
                raise TRexError("port(s) {0}: {1}".format(bad, text))
        return ports

    def acquire(self, ports=None, force=False, sync_streams=True):
        for n in self.validate(ports, acquired=False):
            if SETUP["owner"] and not force:
                raise TRexError("port %d is owned by '%s'" % (n, SETUP["owner"]))
            self.ports[n].acquired = True

    def reset(self, ports=None, restart=False):
        self.acquire(ports, force=True)
        self.stop(ports)
        self.remove_all_streams(ports)
        self.clear_stats(ports)

    def remove_all_streams(self, ports=None):
        for n in self.validate(ports, idle=True):
            self.ports[n].streams = []

    def add_streams(self, streams, ports=None):
        streams = streams if isinstance(streams, list) else [streams]
        if not all(isinstance(s, STLStream) for s in streams):
            raise TRexArgumentError("streams", streams)
        for n in self.validate(ports, idle=True):
            self.ports[n].streams += streams

    def clear_stats(self, ports=None, clear_global=True, clear_flow_stats=True, clear_latency_stats=True, clear_xstats=True):
        for n in self.validate(ports, acquired=False):
            self.ports[n].opackets = self.ports[n].ipackets = 0

    def start(self, ports=None, mult="1", force=False, duration=-1, total=False, core_mask=None, synchronized=False):
        self.validate(ports, idle=True)
        validate_type("mult", mult, str)
        validate_type("duration", duration, (int, float))
        for n in ports:
            port, other = self.ports[n], self.ports[n ^ 1]
            if not port.streams:
                raise TRexError("port %d has no streams" % n)
            packet, pps = port.streams[0].packet, port.streams[0].mode.pps
            size = len(packet.pkt) + 4  # the hardware adds the FCS
            ip, udp = packet.pkt.layer("IP").values, packet.pkt.layer("UDP").values
            note("start", port=n, pps=pps, bytes=size, src=ip["src"], dst=ip["dst"], mac=packet.pkt.values.get("dst", ""),
                 checksum=udp.get("chksum", -1), vm=packet.vm)
            sent = round(min(pps, LINK / 8 / (size + 20)) * duration)
            port.opackets += sent
            other.ipackets += min(sent, round(SETUP["capacity"] * duration)) + SETUP["stray"]
            port.until = time.monotonic() + duration

    def stop(self, ports=None, rx_delay_ms=None):
        for n in self.validate(self.active() if ports is None else ports):
            if n in self.active():
                note("stop", port=n)
            self.ports[n].until = 0.0

    def wait_on_traffic(self, ports=None, timeout=None, rx_delay_ms=None):
        self.validate(ports)
        limit = time.monotonic() + timeout
        while set(self.active()).intersection(ports):
            time.sleep(0.01)
            if time.monotonic() > limit:
                raise TRexTimeoutError(timeout)

    def get_stats(self, ports=None, sync_now=True):
        stats = {n: {"opackets": self.ports[n].opackets, "ipackets": self.ports[n].ipackets} for n in ports}
        stats["total"] = {key: sum(stats[n][key] for n in ports) for key in ("opackets", "ipackets")}
        return stats

    def disconnect(self, stop_traffic=True, release_ports=True):
        if stop_traffic:
            try:
                self.stop()
            except TRexError:
                pass
        note("disconnect", released=[n for n in self.ports if self.ports[n].acquired])
        self.ports = {}
