// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"fastpath/src/itest/topo"
	"fastpath/src/status"
)

// The list, and a sender that it names. The entries lie apart, so that none can be joined.
const (
	listFile   = "/etc/fastpath/abuse.list"
	listed     = 100_000 // the most that fastpath takes
	unwanted   = "100.64.0.37"
	listStep   = 37
	fewer      = 1000   // entries, when it is loaded anew
	floodSize  = 19_200 // packets; a multiple of floodBurst, as the next
	floodPaced = 640    // between two looks while the list is loaded anew
)

const dropConfig = `config drop 'abuse'
	option file '` + listFile + `'
`

// witness counts, before any rule of the router's, what gets as far as its IP stack.
const witness = `table inet witness {
	chain prerouting {
		type filter hook prerouting priority raw - 1;
		ip saddr ` + unwanted + ` counter
	}
}
`

// forwardDrop is where a rule of the firewall would drop: where packets are forwarded.
const forwardDrop = `table inet late {
	set abuse { type ipv4_addr; elements = { ` + unwanted + ` } }
	chain forward { type filter hook forward priority filter - 1; ip saddr @abuse counter drop; }
}
`

func earlyDrop(p *page) error {
	if err := p.topology(topo.PPPoEVLAN, "PPPoE on VLAN 35; someone at the provider floods host1",
		fmt.Sprintf(pppoeDrawing, topo.Host1v4, topo.Host2v4, topo.Serverv4, topo.Serverv6)); err != nil {
		return err
	}
	if err := writeList(listed); err != nil {
		return err
	}
	fmt.Printf("   %s has %d addresses, %s among them.\n", listFile, listed, unwanted)
	if err := p.configure("fastpath", dropConfig); err != nil {
		return err
	}
	if _, err := p.net.Router.Sh("nft -f - <<'END'\n" + witness + "END\n"); err != nil {
		return err
	}
	if err := p.run(); err != nil {
		return err
	}
	f, err := startFlood(p.net, unwanted)
	if err != nil {
		return err
	}
	defer f.close()
	early, err := p.flooded(f, "dropped by fastpath at the earliest hook")
	if err != nil {
		return err
	}
	p.check(early.reached == 0, "%d of %d packets of the flood got past the hook (want none)", early.reached, early.sent)
	p.dropCounter(early.sent)
	if err := p.reloadedList(f); err != nil {
		return err
	}
	if err := p.memory(); err != nil {
		return err
	}
	return p.againstForward(f, early)
}

// writeList writes the list with so many entries.
func writeList(entries int) error {
	var b bytes.Buffer
	for i := range entries {
		n := i * listStep
		fmt.Fprintf(&b, "100.%d.%d.%d\n", 64+n>>16, n>>8&255, n&255)
	}
	return errors.Join(os.MkdirAll("/etc/fastpath", 0o755), os.WriteFile(listFile, b.Bytes(), 0o644))
}

// flooding is what became of a flood.
type flooding struct {
	sent, reached int64 // packets; reached: the router's IP stack
	each          time.Duration
}

// flooded floods and says how that went.
func (p *page) flooded(f *flood, what string) (r flooding, err error) {
	heading("A flood of %d packets from %s, %s", floodSize, unwanted, what)
	before, err := p.witnessed()
	if err != nil {
		return r, err
	}
	r.sent = floodSize
	if r.each, err = f.send(r.sent); err != nil {
		return r, err
	}
	after, err := p.witnessed()
	r.reached = after - before
	fmt.Printf("   %d packets came in at wan, %d got to the router's IP stack; %d ns of the CPU for each, sender and wire included\n",
		r.sent, r.reached, r.each.Nanoseconds())
	return r, err
}

var witnessLine = regexp.MustCompile(`counter packets (\d+)`)

func (p *page) witnessed() (int64, error) {
	out, err := p.net.Router.Sh("nft list chain inet witness prerouting")
	m := witnessLine.FindStringSubmatch(out)
	if err != nil || m == nil {
		return 0, fmt.Errorf("the witness: %v: %s", err, out)
	}
	return strconv.ParseInt(m[1], 10, 64)
}

// dropCounter looks whether the status has counted them.
func (p *page) dropCounter(sent int64) {
	doc, err := p.until("the drops in the status", func(d status.Document) bool { return d.Drops.Ports["wan"] >= uint64(sent) })
	if err != nil { // the verdict says it
		fmt.Println("   ", err)
	} else {
		show(p.net.Router, "fastpath", "status")
	}
	p.check(err == nil && doc.Drops.V4 == listed, "fastpath status: %d entries, %d packets dropped at wan (want %d, and at least %d)",
		doc.Drops.V4, doc.Drops.Ports["wan"], listed, sent)
}

// reloadedList loads a shorter list while the flood goes on.
func (p *page) reloadedList(f *flood) error {
	heading("The list is loaded anew, with %d entries less, during the flood", fewer)
	if err := writeList(listed - fewer); err != nil {
		return err
	}
	before, err := p.witnessed()
	if err != nil {
		return err
	}
	if err := p.reload(); err != nil {
		return err
	}
	sent := int64(0)
	for start := time.Now(); ; {
		if _, err := f.send(floodPaced); err != nil {
			return err
		}
		sent += floodPaced
		if doc, err := ask(p.net.Router); err == nil && doc.Drops.V4 == listed-fewer {
			break
		}
		if time.Since(start) > 5*time.Minute {
			return errors.New("the daemon doesn't take the new list")
		}
	}
	if _, err := f.send(floodPaced); err != nil {
		return err
	}
	p.news()
	after, err := p.witnessed()
	if err != nil {
		return err
	}
	p.check(after == before, "while the list was loaded anew, %d of %d packets got past the hook (want none)", after-before, sent+floodPaced)
	return nil
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// memory is the daemon's at its most.
func (p *page) memory() error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.daemon.cmd.Process.Pid))
	if err != nil {
		return err
	}
	m := highWater.FindSubmatch(text)
	if m == nil {
		return errors.New("no VmHWM")
	}
	fmt.Printf("   fastpath run has never used more than %s kB of memory (VmHWM).\n", m[1])
	return nil
}

// againstForward does without the list, and drops the flood where the firewall would.
func (p *page) againstForward(f *flood, early flooding) error {
	heading("Without the list")
	if err := topo.PPPoEVLAN.WriteConfig("/etc/config", topo.Engine{}); err != nil {
		return err
	}
	if err := p.reload(); err != nil {
		return err
	}
	if _, err := p.net.Router.Sh("nft -f - <<'END'\n" + forwardDrop + "END\n"); err != nil {
		return err
	}
	fmt.Print(indent(strings.TrimSpace(forwardDrop)))
	for deadline := time.Now().Add(2 * time.Minute); ; {
		before, err := p.witnessed()
		if err != nil {
			return err
		}
		if _, err := f.send(floodBurst); err != nil {
			return err
		}
		if after, err := p.witnessed(); err != nil {
			return err
		} else if after > before {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("the daemon doesn't give the list up")
		}
	}
	late, err := p.flooded(f, "dropped by nft in forward")
	if err != nil {
		return err
	}
	p.check(late.reached == late.sent, "in forward all %d packets had to be carried through the stack (%d were)", late.sent, late.reached)
	p.check(early.each < late.each, "a dropped packet costs the VM %d ns at the hook and %d ns in forward, sender and wire included: the router executes %d ns less for each",
		early.each.Nanoseconds(), late.each.Nanoseconds(), (late.each - early.each).Nanoseconds())
	return nil
}
