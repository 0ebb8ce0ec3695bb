// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"fastpath/src/testkit"
)

// startWAN connects router and provider and puts the server behind the provider.
func (n *Net) startWAN() error {
	v := n.Variant
	if err := ip(n.Provider, "addr add "+Serverv4+"/32 dev lo", "addr add "+Serverv6+"/128 dev lo nodad"); err != nil {
		return err
	}
	if err := errors.Join(startEthernet(n.Provider, "line", v), startEthernet(n.Router, "wan", v)); err != nil {
		return err
	}
	var err error
	switch {
	case v.PPPoE:
		err = n.startSession()
	case v.DSLite:
		return n.startDSLite()
	default:
		err = n.startStatic()
	}
	if err == nil && v.SecondWAN {
		err = n.startSecond()
	}
	if err == nil && v.Mode != "" {
		err = n.startTunnel()
	}
	return err
}

func (n *Net) startStatic() error {
	line := n.Variant.line()
	err := ip(n.Provider, "addr add "+ProviderWANv4+"/24 dev "+line, "addr add "+ProviderWANv6+"/64 dev "+line+" nodad")
	return errors.Join(err, n.routeBack("via "+RouterWANv6), n.Address())
}

// routeBack gives the provider its routes to the router's networks.
func (n *Net) routeBack(by string) error {
	var errs []error
	for _, prefix := range n.Variant.prefixes() {
		errs = append(errs, ip(n.Provider, "route replace "+prefix+" "+by))
	}
	return errors.Join(errs...)
}

// Address gives the router's static WAN what it lacks of its addresses and
// routes, as netifd does when the device has come back.
func (n *Net) Address() error {
	wan, last := n.Variant.Lower(), ""
	if n.Variant.SecondWAN {
		last = fmt.Sprintf(" metric %d", metric)
	}
	return ip(n.Router,
		"addr replace "+RouterWANv4+"/24 dev "+wan, "addr replace "+RouterWANv6+"/64 dev "+wan+" nodad",
		"route replace default via "+ProviderWANv4+last, "route replace default via "+ProviderWANv6+last)
}

func startEthernet(ns *testkit.Netns, device string, v Variant) error {
	commands := []string{"link set " + device + " up"}
	for _, tag := range v.tags() {
		proto, upper := "802.1q", fmt.Sprintf("%s.%d", device, tag)
		if tag == v.Service {
			proto = "802.1ad"
		}
		commands = append(commands,
			fmt.Sprintf("link add link %s name %s type vlan proto %s id %d", device, upper, proto, tag),
			"link set "+upper+" up")
		device = upper
	}
	return ip(ns, commands...)
}

// Account with the provider, checked by PAP.
const (
	user     = "line35@provider.example"
	password = "secret"
)

// Files that pppd and pppoe-server read.
const (
	secretsFile = "/etc/ppp/pap-secrets"
	optionsFile = "/etc/ppp/pppoe-server-options"
)

// common are pppd's options at both ends. The MTU is 1500 less 8 bytes of
// PPPoE and PPP (RFC 2516 section 7). Echoes are patient: a busy machine isn't
// a broken line.
var common = []string{"+ipv6", "noccp", "novj", "nodefaultroute", "mtu 1492", "mru 1492",
	"lcp-echo-interval 10", "lcp-echo-failure 6", "nodetach"}

// startSession starts pppoe-server and dials.
func (n *Net) startSession() error {
	v := n.Variant
	options := append([]string{"auth", "require-pap", "ifname " + v.peer(), "logfile " + logFile("kpppd")}, common...)
	secrets := fmt.Sprintf("%q * %q *\n", user, password)
	err := errors.Join(os.MkdirAll("/etc/ppp", 0o755),
		os.WriteFile(optionsFile, []byte(strings.Join(options, "\n")+"\n"), 0o600),
		os.WriteFile(secretsFile, []byte(secrets), 0o600))
	if err != nil {
		return err
	}
	// Two sessions at most: while the old one of a redialled line is taken down
	// there has to be a free one, with the next address.
	n.server, err = start(n.Provider, "pppoe-server", "-F", "-I", v.line(), "-C", "provider",
		"-q", kpppd, "-O", optionsFile, "-L", ProviderWANv4, "-R", RouterWANv4, "-N", "2")
	if err != nil {
		return err
	}
	return n.dial()
}

// dial starts the router's pppd, waits for both address families, and routes
// over the session as netifd would.
func (n *Net) dial() (err error) {
	v := n.Variant
	n.pppd, err = start(n.Router, "pppd", append([]string{"plugin", "rp-pppoe.so", "nic-" + v.Lower(),
		"ifname", v.WAN(), "ipparam", "wan", "noauth", "noipdefault", "user", user, "password", password},
		strings.Fields(strings.Join(common, " "))...)...)
	if err != nil {
		return err
	}
	err = errors.Join(
		wait(n.Router, v.WAN(), both),
		wait(n.Provider, v.peer(), both))
	if err != nil {
		return fmt.Errorf("no PPPoE session: %w\npppd: %s\npppoe-server: %s\nthe provider's pppd: %s",
			err, logOf("pppd"), logOf("pppoe-server"), logOf("kpppd"))
	}
	return errors.Join(
		n.routeBack("dev "+v.peer()),
		ip(n.Router, "route add default dev "+v.WAN(), "route add ::/0 dev "+v.WAN()))
}

// Redial ends the PPPoE session and makes another, which has another session
// number and another IPv4 address, as providers do it.
func (n *Net) Redial() error {
	if err := stop(n.pppd); err != nil {
		return err
	}
	n.pppd = nil
	if err := wait(n.Provider, n.Variant.peer(), gone); err != nil {
		return fmt.Errorf("the provider keeps the old session: %w", err)
	}
	return n.dial()
}

// start starts a program in the namespace; logOf is what it says.
func start(ns *testkit.Netns, name string, args ...string) (*exec.Cmd, error) {
	log, err := os.Create(logFile(name))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := ns.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return cmd, nil
}

func logFile(name string) string { return "/tmp/" + name + ".log" }

func logOf(name string) []byte {
	text, err := os.ReadFile(logFile(name))
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

// wait asks ip for a device and its addresses until good says so. What good
// gets is empty while there is no such device.
func wait(ns *testkit.Netns, device string, good func(shown string) bool) error {
	var out []byte
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		out, _ = exec.Command("ip", "-n", ns.Name, "addr", "show", "dev", device).Output()
		if good(string(out)) {
			return nil
		}
	}
	return fmt.Errorf("%s in %s has: %s", device, ns.Name, out)
}

func both(shown string) bool {
	return strings.Contains(shown, " inet ") && strings.Contains(shown, " inet6 fe80:")
}

func gone(shown string) bool { return shown == "" }
