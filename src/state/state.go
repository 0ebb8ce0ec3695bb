// SPDX-License-Identifier: Apache-2.0

// Package state holds plain comparable types for what a router has (Observed)
// and what it should have (State), and the steps that lead from one to the
// other. It has no behaviour beyond printing itself and being read: everything
// here can be written down in a golden file.
package state

// Hook is where the flowtable takes its packets.
type Hook string

// The hooks, earliest first.
const (
	HookEarly   Hook = "early_ingress" // NAPI's list, before GRO and RPS (seed 000)
	HookIngress Hook = "ingress"       // netdev ingress, one packet at a time
	HookOff     Hook = "off"           // no flowtable
)

// NumberIngress is NF_NETDEV_INGRESS (include/uapi/linux/netfilter.h): what a
// flowtable of any family carries for hook ingress. The number of early_ingress
// is configured, because no released kernel has fixed it.
const NumberIngress = 0

// Ability says whether the kernel can do a thing and, if it can't, why, in
// words for the router's owner.
type Ability struct {
	OK     bool
	Reason string
}

// Hooks is what the kernel answered to trials that were never committed.
type Hooks struct {
	Ingress Ability
	Early   Ability
	// Confirmed: packets of accelerated flows were seen to bypass netdev
	// ingress, so the hook number means what we think. The agent fills it.
	Confirmed bool
}

// Query is what Observe can't know by itself.
type Query struct {
	HookNumber uint32 // the number to try for early_ingress
}

// Observed is one look at the kernel. Links are sorted by index.
type Observed struct {
	Release    string // uname -r
	Links      []Link
	Interfaces []Interface // netifd's view by ubus; empty without ubus
	NetifdLate bool        // netifd hasn't answered in time: Interfaces is what it said last
	Sessions   []Session   // /proc/net/pppoe
	Routing    Routing
	FW4        FW4
	Table      *Table   // our table inet fastpath; nil: absent
	Checks     []string // devices with our counting chain at netdev ingress, sorted
	Drop       DropState
	Hooks      Hooks
	IPsec      Ability // can rules match IPsec (kernel built with XFRM)?
	FIB        Ability // can rules of chain forward look up routes (nft_fib)?
	FIBLoose   Ability // also without regard to the device?
	// Marks: rules can hand connections to engines, by a mark whose change
	// conntrack tells (CONFIG_NF_CONNTRACK_MARK, sysctl nf_conntrack_events).
	Marks Ability
	// Saved is saved.json: the offloads each port had before we changed them.
	Saved   map[string]Offloads
	Sysctls map[string]Sysctl // by name
	// SavedSysctls, from saved.json, are values from before we changed them.
	SavedSysctls map[string]string
	// Passive is why this run may change nothing, as only the daemon knows; "": it may.
	Passive string
	// Accelerators are others that run: their kernel modules, and Bridger. Sorted.
	Accelerators []string
	Flowtables   []ForeignFlowtable // sorted by table and name
	// Translators are kernel modules that translate between IPv4 and IPv6 (NAT64) and are loaded.
	Translators []string
	Setters     []Setter // sorted by table
	// Multicast is why a device is taken to carry multicast TV, by its name.
	Multicast map[string]string
	// Mix is what came in by the ports; only the agent knows it.
	Mix map[string]Mix
	// Engines are ours that run now, Refused those that can't, by port.
	Engines map[string]Engine
	Refused map[string]Refusal
	// Trials are what was found out, in words, about whether engines that run
	// earn their place; by port, none with Engine.Force.
	Trials map[string]string
}

// Link is one netdev as rtnetlink, sysfs and ethtool tell it.
type Link struct {
	Index     int
	Name      string
	Kind      string // rtnetlink kind: "", bridge, vlan, ppp, veth, dsa, …
	Lower     int    // IFLA_LINK inside this namespace: a VLAN's parent, a DSA port's conduit; 0: none
	Master    int    // the bridge, bond or VRF that this is part of; 0: none
	VLAN      uint16 // Kind vlan: the tag
	QinQ      bool   // Kind vlan: the tag is 802.1ad
	MAC       [6]byte
	MTU       int
	Up        bool
	Addressed bool   // it has an IPv4 or a global IPv6 address
	Bus       bool   // a real bus device stands behind it: a NIC, not a virtual device
	DevType   string // uevent DEVTYPE: dsa, wlan, …
	Driver    string
	XDP       uint32 // id of the attached XDP program; 0: none
	// XDPGeneric: it runs in generic mode, on what the driver has made of a frame.
	XDPGeneric bool
	// XDPFeatures is NETDEV_A_DEV_XDP_FEATURES (include/uapi/linux/netdev.h):
	// what the driver can do now. 0: nothing, or a kernel before 6.3, which doesn't tell.
	XDPFeatures uint64
	// Queues is the number of receive queues in use: ethtool's channels, or
	// what rtnetlink tells of a driver that has none.
	Queues  int
	Steered int // CPUs that receive packet steering (RPS) spreads its packets over; 0: none
	Feature Features
	Qdisc   Qdisc
	Tunnel  Tunnel
}

// Feature is one ethtool feature; Fixed means that the driver won't change it.
type Feature struct{ On, Fixed bool }

// Features are the receive offloads that decide about fraglist GRO, bulking
// and engines.
type Features struct {
	GRO     Feature // rx-gro
	GROList Feature // rx-gro-list
	GROHW   Feature // rx-gro-hw
	LRO     Feature // rx-lro
	RxVLAN  Feature // rx-vlan-hw-parse: an XDP program doesn't see the tag that it takes off
	// UDPForward is rx-udp-gro-forwarding. It is looked at, never set.
	UDPForward Feature
}

// Offloads is a wanted or saved setting of the same five.
type Offloads struct {
	GRO     bool `json:"rx-gro"`
	GROList bool `json:"rx-gro-list"`
	GROHW   bool `json:"rx-gro-hw"`
	LRO     bool `json:"rx-lro"`
	RxVLAN  bool `json:"rx-vlan-hw-parse"`
}

// Offloads is what f has switched on.
func (f Features) Offloads() Offloads {
	return Offloads{GRO: f.GRO.On, GROList: f.GROList.On, GROHW: f.GROHW.On, LRO: f.LRO.On, RxVLAN: f.RxVLAN.On}
}

// Merges: packets of a flow are joined before a hook or an XDP program sees them.
func (o Offloads) Merges() bool { return o.GRO || o.GROList || o.GROHW || o.LRO }

// Interface is one logical interface of netifd.
type Interface struct {
	Name     string
	Proto    string
	Device   string // main device; "" for device-less protocols
	L3Device string // only when up
	Zone     string // of the firewall, if the protocol says it: that of a dynamic interface (wan_4) stands in no file
	Up       bool
}

// Session is one line of /proc/net/pppoe.
type Session struct {
	ID     uint16
	Peer   [6]byte // the concentrator's MAC
	Device string  // the Ethernet device below
}

// FW4 is what OpenWrt's firewall has in the kernel.
type FW4 struct {
	Present    bool   // table inet fw4 exists
	Generation string // changes whenever its rules were loaded again
	Offload    bool   // it has a flowtable of its own
	Hardware   bool   // with flags offload
}

// State is what the kernel should have of ours.
type State struct {
	Table    *Table
	Checks   []string            // sorted device names
	Drop     *Drop               // nil: nothing is dropped by source
	Features map[string]Offloads // by port; a port that isn't here is left (or given back) as it was
	Engines  map[string]Engine   // by port
	Sysctls  map[string]string   // values by name; one that isn't here is given back
}

// Table is inet fastpath: at most one flowtable, a set for each kind of engine,
// and the chain forward.
type Table struct {
	// Generation is what FW4.Generation was, and which PPPoE sessions there
	// were, when the flows were learnt. It is kept in the kernel (in the
	// comments of the rules that hand flows on), never in memory.
	Generation string
	Flowtable  Flowtable
	// Engines are the l3 devices, sorted, between any two of which an engine
	// carries the flows, by the engine's kind; each is a set of that name.
	// nil: no engine.
	Engines map[string][]string
	// Zones are the l3 devices, sorted, of the firewall's zones that policies
	// name; each is a set named ZonePrefix + zone. nil: no zone.
	Zones map[string][]string
	// Sets are those that policies name, sorted. What is in them is other
	// programs', so no step empties one that stays.
	Sets  []Set
	Rules []Rule // of chain forward and then of AccelerateChain, in order
	// Validation checks where packets say that they come from.
	Validation Validation
}

// Set is a set of addresses, which may be prefixes and may have timeouts.
type Set struct {
	Name   string
	Family string // ipv4, ipv6
}

// Flowtable is the table's flowtable, named FlowtableName. Without devices
// there is none: it is then the zero value.
type Flowtable struct {
	Number  uint32   // netfilter hook number as the kernel has it
	Devices []string // sorted
	Counter bool
}

// Names in the kernel.
const (
	TableName     = "fastpath"
	FlowtableName = "ft"
	ChainName     = "forward"
	// AccelerateChain is where packets go on that no policy keeps back; there is
	// none without a policy that accelerates.
	AccelerateChain = "accelerate"
	ZonePrefix      = "zone-"
	// ChainPriority puts us after fw4's verdict (its forward chain has priority filter = 0).
	ChainPriority = 10
)

// Flow is one accelerated connection. Of one that a flowtable carries,
// conntrack tells; a flowtable can't be listed itself (facts of the kernel, README).
type Flow struct {
	Engine  string `json:"engine"` // flowtable, xdp, afxdp
	Family  string `json:"family"` // ipv4, ipv6
	Proto   string `json:"proto"`  // tcp, udp
	Orig    Tuple  `json:"orig"`
	Reply   Tuple  `json:"reply"`
	Mark    uint32 `json:"mark"`
	Counted bool   `json:"counted"` // nf_conntrack_acct and the flowtable's counter are on
	// In, Out and Encap are computed by us from routes and links; the kernel
	// doesn't tell. In is the port of the originator.
	In    string  `json:"in_computed"`
	Out   string  `json:"out_computed"`
	Encap string  `json:"encap_computed"`
	Idle  float64 `json:"idle_seconds,omitempty"` // of an engine's flow; measured every 10 s
}

// Tuple is one direction of a flow.
type Tuple struct {
	Src     string `json:"src"`
	Dst     string `json:"dst"`
	SrcPort uint16 `json:"sport"`
	DstPort uint16 `json:"dport"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Counters is one sample. Everything counts from some point in the past: only
// differences mean anything.
type Counters struct {
	SlowPackets uint64 // established TCP and UDP packets that reached chain forward
	SlowBytes   uint64
	StackBytes  uint64            // bytes that IP received, the loopback's left out
	Rules       map[string]uint64 // packets that rules have counted, by their identity; 0 isn't there
	Invalid     uint64            // packets that source validation dropped
	Dropped     map[string]uint64 // packets dropped by source, by port
	Ports       map[string]PortCounters
	Engines     map[string]EngineCounters // by port
	EngineFlows int                       // connections that engines carry
	EngineFull  uint64                    // connections that found no room in an engine
}

// PortCounters is one port's part of Counters.
type PortCounters struct {
	RxPackets, RxBytes uint64 // the driver's
	TxPackets, TxBytes uint64
	Ingress            uint64 // packets seen by our counting chain at netdev ingress; 0 without one
}
