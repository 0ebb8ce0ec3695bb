// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// etc holds what lies in the router's /etc/config, and the ruleset in the
// shape in which fw4 prints it for that configuration.
//
//go:embed etc
var etc embed.FS

var templates = template.Must(template.ParseFS(etc, "etc/*"))

// Engine is what the router's port sections ask for; the zero value: there are none.
type Engine struct {
	Kind     string // xdp, afxdp
	ZeroCopy bool
	// Force: the engine need not show that it is cheaper than the best path
	// without it, about which an emulated CPU tells little.
	Force bool
}

// render fills in one file of etc for the variant.
func (v Variant) render(name string, e Engine) (string, error) {
	var b strings.Builder
	err := templates.ExecuteTemplate(&b, name, map[string]any{
		"V": v, "Locals": v.locals(), "WAN": v.WAN(), "Lower": v.Lower(), "Tunnel": v.Tunnel(), "MTU": v.tunnelMTU(), "Engine": e,
		"RouterWANv4": RouterWANv4, "RouterWANv6": RouterWANv6, "ProviderWANv4": ProviderWANv4, "ProviderWANv6": ProviderWANv6,
		"RouterWAN2v4": RouterWAN2v4, "RouterWAN2v6": RouterWAN2v6, "ProviderWAN2v4": ProviderWAN2v4, "ProviderWAN2v6": ProviderWAN2v6,
		"RouterTunnelv4": RouterTunnelv4, "Metric": metric, "Metric2": 2 * metric, "User": user, "Password": password,
	})
	return b.String(), err
}

// locals are the networks behind NAT, LAN first, for the templates.
func (v Variant) locals() []map[string]string {
	all := []network{v.lan()}
	if w, ok := v.guests(); ok {
		all = append(all, w)
	}
	var out []map[string]string
	for _, w := range all {
		out = append(out, map[string]string{"Name": w.name, "Device": w.device, "V4": w.v4(1), "V6": w.v6(1)})
	}
	return out
}

// Ruleset is the firewall, for nft -f.
func (v Variant) Ruleset() (string, error) { return v.render("fw4.nft", Engine{}) }

// WriteConfig writes network, firewall and fastpath into dir as OpenWrt has
// them on this router, with the engine on each of its ports.
func (v Variant) WriteConfig(dir string, e Engine) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"network", "firewall", "fastpath"} {
		text, err := v.render(name, e)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// startFirewall sets the kernel as OpenWrt's sysctl.d does and loads the rules.
func (n *Net) startFirewall() error {
	const ct = "net/netfilter/nf_conntrack_"
	err := sysctl(n.Router,
		"net/ipv4/ip_forward", "1", "net/ipv6/conf/all/forwarding", "1",
		"net/ipv4/conf/default/arp_ignore", "1", "net/ipv4/conf/all/arp_ignore", "1",
		ct+"acct", "1", ct+"checksum", "0", ct+"tcp_timeout_established", "7440",
		ct+"udp_timeout", "60", ct+"udp_timeout_stream", "180")
	if err != nil {
		return err
	}
	rules, err := n.Variant.Ruleset()
	if err != nil {
		return err
	}
	_, err = feed(n.Router.Command("nft", "-f", "-"), rules)
	return err
}
