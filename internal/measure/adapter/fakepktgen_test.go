package adapter

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"

	"mpps/internal/measure/search/simulated"
	"mpps/internal/must"
)

// pktgen is a fake of pktgen-dpdk's socket, as pktgen/Pktgen-DPDK has it: the shell of lib/lua/lua_socket.c, for one
// client at a time, and the functions of app/lpktgenlib.c that an adapter may use, with what their values are made
// into. Real Lua runs behind it, so that a client's syntax, escapes and errors count. Between its two ports stands a
// simulated device.
type pktgen struct {
	t       *testing.T
	address string // of its socket
	clock   string // where time is told how long to pass, see testdata/clock.py

	mu      sync.Mutex
	virtual float64 // seconds; time passes only as it is told
	began   time.Time
	ports   [2]*dpdkPort
	console []string // what clients do not see: errors
	calls   []string
	stray   float64 // frames that a port receives in each trial beside those that were sent to it
}

// dpdkPort is a port with a link of 10 Gbit/s, and the device that takes what it sends.
type dpdkPort struct {
	size, rangeSize  int // with FCS
	rate             float64
	count            float64
	ranges, sending  bool
	since            float64
	opackets         float64
	ipackets         float64
	shown, shownIn   float64 // the counters are read once a second
	changed          float64
	device           *simulated.Device
	srcFrom, srcTo   string
	portFrom, portTo int
}

const linkMbit = 10000

// newPktgen starts one. With virtual time it takes no time to send for a minute.
func newPktgen(t *testing.T, kind string, capacity float64, virtual bool) *pktgen {
	t.Helper()
	p := &pktgen{t: t}
	if !virtual {
		p.began = time.Now()
	}
	for i := range p.ports {
		d := must.Get(simulated.New(kind, capacity, uint64(i+1)))(t)
		p.ports[i] = &dpdkPort{size: 64, rangeSize: 64, rate: 100, device: d, changed: math.Inf(-1)}
	}
	p.address = p.serve(p.shell)
	p.clock = p.serve(p.tick)
	return p
}

// serve takes one connection after the other.
func (p *pktgen) serve(handle func(net.Conn)) string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(p.t)
	p.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handle(c)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// tick lets time pass.
func (p *pktgen) tick(c net.Conn) {
	for lines := bufio.NewScanner(c); lines.Scan(); {
		seconds, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			p.t.Errorf("the clock was told %q", lines.Text())
		}
		p.mu.Lock()
		p.virtual += seconds
		p.mu.Unlock()
		_, _ = fmt.Fprintln(c, "ok")
	}
}

func (p *pktgen) now() float64 {
	if !p.began.IsZero() {
		return time.Since(p.began).Seconds()
	}
	return p.virtual
}

// shell reads a line, tries it as an expression and then as a statement, with lines that follow while it is incomplete.
// What io.write wrote goes out when it is flushed, as with any FILE on a socket.
func (p *pktgen) shell(c net.Conn) {
	state := lua.NewState()
	defer state.Close()
	out := bufio.NewWriter(c)
	p.library(state, out)
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		line := lines.Text()
		must.Hold(p.t, len(line) < 2047, "a line of %d bytes: the buffer of older versions has 2048", len(line))
		chunk, err := state.LoadString("return " + line + ";")
		if err != nil {
			for chunk, err = state.LoadString(line); err != nil && strings.Contains(err.Error(), "EOF") &&
				lines.Scan(); {
				line += "\n" + lines.Text()
				chunk, err = state.LoadString(line)
			}
		}
		if err == nil {
			state.Push(chunk)
			err = state.PCall(0, 0, nil)
		}
		if err != nil {
			p.mu.Lock()
			p.console = append(p.console, err.Error())
			p.mu.Unlock()
		}
	}
}

// library is what pktgen's Lua has beside Lua.
func (p *pktgen) library(state *lua.LState, out *bufio.Writer) {
	table := func(functions map[string]lua.LGFunction) *lua.LTable {
		t := state.NewTable()
		for name, f := range functions {
			state.SetField(t, name, state.NewFunction(func(l *lua.LState) int {
				p.mu.Lock()
				defer p.mu.Unlock()
				return f(l)
			}))
		}
		return t
	}
	state.SetGlobal("io", table(map[string]lua.LGFunction{
		"write": func(l *lua.LState) int {
			for i := 1; i <= l.GetTop(); i++ {
				_, _ = out.WriteString(l.CheckString(i))
			}
			return 0
		},
		"flush": func(*lua.LState) int { _ = out.Flush(); return 0 },
	}))
	library := table(map[string]lua.LGFunction{
		"set": p.set, "start": p.start, "stop": p.stop, "portStats": p.portStats, "portInfo": p.portInfo,
		"linkState": p.linkState,
		"portCount": func(l *lua.LState) int { l.Push(lua.LNumber(len(p.ports))); return 1 },
		"set_type":  p.noted("set_type", 2), "set_proto": p.noted("set_proto", 2), "set_mac": p.noted("set_mac", 3),
		"set_range": func(l *lua.LState) int {
			p.each(l, "set_range", 2, func(port *dpdkPort) { port.ranges = l.CheckString(2) == "on" })
			return 0
		},
	})
	state.SetField(library, "range", table(map[string]lua.LGFunction{
		"ip_proto": p.noted("range.ip_proto", 2), "dst_mac": p.noted("range.dst_mac", 3),
		"dst_ip": p.noted("range.dst_ip", 3), "dst_port": p.noted("range.dst_port", 3),
		"src_ip": func(l *lua.LState) int {
			p.each(l, "range.src_ip", 3, func(port *dpdkPort) {
				between(l, &port.srcFrom, &port.srcTo, l.CheckString(3))
			})
			return 0
		},
		"src_port": func(l *lua.LState) int {
			p.each(l, "range.src_port", 3,
				func(port *dpdkPort) { between(l, &port.portFrom, &port.portTo, l.CheckInt(3)) })
			return 0
		},
		"pkt_size": func(l *lua.LState) int {
			p.each(l, "range.pkt_size", 3, func(port *dpdkPort) {
				if l.CheckString(2) == "start" {
					port.rangeSize = l.CheckInt(3)
				}
			})
			return 0
		},
	}))
	state.SetGlobal("pktgen", library)
}

func between[T any](l *lua.LState, from, to *T, value T) {
	switch l.CheckString(2) {
	case "min":
		*from = value
	case "max":
		*to = value
	}
}

// each does something to each port of a list that there is; others are passed over, as pktgen does.
func (p *pktgen) each(l *lua.LState, name string, arguments int, do func(*dpdkPort)) {
	if l.GetTop() != arguments {
		l.RaiseError("%s, wrong number of arguments", name)
	}
	p.calls = append(p.calls, name)
	for i, port := range p.ports {
		if slices.Contains(strings.Split(l.CheckString(1), ","), strconv.Itoa(i)) {
			do(port)
		}
	}
}

func (p *pktgen) noted(name string, arguments int) lua.LGFunction {
	return func(l *lua.LState) int {
		p.each(l, name, arguments, func(*dpdkPort) { l.CheckString(arguments) })
		return 0
	}
}

func (p *pktgen) set(l *lua.LState) int {
	p.each(l, "set", 3, func(port *dpdkPort) {
		value := float64(l.CheckNumber(3))
		switch what := strings.ToLower(l.CheckString(2)); what {
		case "size": // is made to fit
			port.size = int(min(max(value, 64), 1518))
		case "rate": // so is the rate
			if port.rate = min(value, 100); value == 0 {
				port.rate = 0.01
			}
		case "count": // of 32 bits
			port.count = float64(uint32(value))
		default:
			l.RaiseError("set does not support %s", what)
		}
	})
	return 0
}

func (p *pktgen) start(l *lua.LState) int {
	p.each(l, "start", 1, func(port *dpdkPort) { port.sending, port.since = true, p.now() })
	return 0
}

// stop counts what was sent and what the device let through.
func (p *pktgen) stop(l *lua.LState) int {
	p.each(l, "stop", 1, func(port *dpdkPort) {
		if !port.sending {
			return
		}
		port.sending = false
		other := p.ports[0]
		if port == other {
			other = p.ports[1]
		}
		pps := math.Floor(float64(linkMbit*1_000_000/((port.size+20)*8)) * port.rate / 100)
		seconds := p.now() - port.since
		if port.count > 0 {
			seconds = min(seconds, port.count/pps)
		}
		sent, received := port.device.Trial(pps, seconds)
		port.opackets += float64(sent)
		other.ipackets += float64(received) + p.stray
		port.changed, other.changed = p.now(), p.now()
	})
	return 0
}

func (p *pktgen) perPort(l *lua.LState, name string, arguments int, value func(i int, port *dpdkPort) lua.LValue) int {
	t, n := l.NewTable(), 0
	p.each(l, name, arguments, func(port *dpdkPort) {
		i := slices.Index(p.ports[:], port)
		t.RawSet(lua.LNumber(i), value(i, port))
		n++
	})
	l.SetField(t, "n", lua.LNumber(n))
	l.Push(t)
	return 1
}

func (p *pktgen) portStats(l *lua.LState) int {
	return p.perPort(l, "portStats", 2, func(_ int, port *dpdkPort) lua.LValue {
		if p.now()-port.changed >= 1 {
			port.shown, port.shownIn = port.opackets, port.ipackets
		}
		t := l.NewTable()
		l.SetField(t, "opackets", lua.LNumber(port.shown))
		l.SetField(t, "ipackets", lua.LNumber(port.shownIn))
		return t
	})
}

func (p *pktgen) portInfo(l *lua.LState) int {
	return p.perPort(l, "portInfo", 1, func(_ int, port *dpdkPort) lua.LValue {
		t, info := l.NewTable(), l.NewTable()
		l.SetField(info, "pkt_size", lua.LNumber(port.size))
		l.SetField(t, "info", info)
		return t
	})
}

func (p *pktgen) linkState(l *lua.LState) int {
	return p.perPort(l, "linkState", 1,
		func(int, *dpdkPort) lua.LValue { return lua.LString(fmt.Sprintf("<UP-%d-FD>", linkMbit)) })
}

// port is a copy of a port as it is now.
func (p *pktgen) port(i int) dpdkPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.ports[i]
}
