// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"strconv"
)

// Two faults of qemu 7.2's TCG decide the options: with cmpxchg16b the
// guest's flags get lost (random double faults, so cx16=off), and with a
// thread for each CPU a jump label may be run while it is half patched
// (oops: int3, so thread=single).
const (
	accel   = "tcg,thread=single"
	cpu     = "max,la57=off,cx16=off"
	machine = "q35,hpet=off"
	// A panic ends the VM at once, an oops is a panic, TSC is the clock.
	kernelArgs = "console=ttyS0 quiet panic=-1 oops=panic nokaslr no_timer_check tsc=reliable random.trust_cpu=on log_buf_len=1M"
)

// qemuArgs is qemu's command line. Nothing of it reaches the host's network:
// NICs are on hubs inside qemu.
func qemuArgs(cfg Config, image string) []string {
	mem, cpus := cfg.MemMiB, cfg.CPUs
	if mem == 0 {
		mem = 512
	}
	if cpus == 0 {
		cpus = 1
	}
	args := []string{
		"-M", machine, "-accel", accel, "-cpu", cpu,
		"-smp", strconv.Itoa(cpus), "-m", strconv.Itoa(mem),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
		"-device", "virtio-rng-pci",
		"-kernel", cfg.Kernel.Image, "-initrd", image,
		"-append", kernelArgs + " " + cfg.Append,
	}
	if cfg.VirtualTime {
		args = append(args, "-icount", "shift=0,sleep=off")
	}
	if len(cfg.NICs)+len(cfg.Sockets) == 0 {
		args = append(args, "-nic", "none")
	}
	for i, hub := range cfg.NICs {
		args = append(args, "-netdev", fmt.Sprintf("hubport,id=n%d,hubid=%d", i, hub), "-device", nic(i))
	}
	for i, path := range cfg.Sockets {
		i += len(cfg.NICs)
		args = append(args,
			"-netdev", fmt.Sprintf("stream,id=n%d,server=off,addr.type=unix,addr.path=%s", i, path),
			"-object", fmt.Sprintf("filter-buffer,id=f%d,netdev=n%[1]d,queue=tx,interval=1000", i),
			"-device", nic(i))
	}
	return args
}

// nic is the device of the i-th NIC. With these options virtio-net can do AF_XDP
// in zero copy, where the kernel's driver can.
func nic(i int) string {
	return fmt.Sprintf("virtio-net-pci,disable-legacy=on,iommu_platform=on,netdev=n%d,mac=%s", i, NICAddr(i))
}
