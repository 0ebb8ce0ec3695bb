// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

func (t Transfer) runTCP(ctx context.Context, m *meter) (sent int64, err error) {
	client, server, err := t.connect(ctx)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { client.Close(); server.Close() })
	defer func() { stop(); client.Close(); server.Close() }()
	from, to := server, client
	if t.Up {
		from, to = client, server
	}
	const warm = WarmPackets * payload
	warmed, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- receiveTCP(to, warm, warm+t.Bytes, warmed, m) }()
	if err := sendTCP(from, 0, warm); err != nil {
		return 0, errors.Join(err, <-done)
	}
	select {
	case err := <-done:
		return 0, err
	case <-warmed:
	}
	if err := t.steady(m); err != nil {
		return 0, err
	}
	if err := sendTCP(from, warm, warm+t.Bytes); err != nil {
		return 0, errors.Join(err, <-done)
	}
	return t.Bytes, <-done
}

// connect opens the connection from inside the client's namespace.
func (t Transfer) connect(ctx context.Context) (client, server net.Conn, err error) {
	at := netip.AddrPortFrom(t.Addr, t.Port)
	var listener *net.TCPListener
	err = t.Server.Inside(func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	err = t.Client.Inside(func() (err error) {
		var d net.Dialer
		client, err = d.DialContext(ctx, "tcp", at.String())
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	server, err = listener.Accept() // the handshake is over: it waits already
	if err != nil {
		client.Close()
	}
	return client, server, err
}

func sendTCP(to net.Conn, from, end int64) error {
	for off := from; off < end; {
		n, err := to.Write(at(off, int(min(maxChunk, end-off))))
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
		off += int64(n)
	}
	return nil
}

// receiveTCP checks the stream up to end, and closes warmed at warm.
func receiveTCP(from net.Conn, warm, end int64, warmed chan<- struct{}, m *meter) error {
	buf := make([]byte, maxChunk)
	for off := int64(0); off < end; {
		n, err := from.Read(buf[:min(maxChunk, end-off)])
		if n > 0 && !bytes.Equal(buf[:n], at(off, n)) {
			return fmt.Errorf("wrong bytes between offsets %d and %d", off, off+int64(n))
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("receive, at offset %d of %d: %w", off, end, err)
		}
		if off >= warm {
			m.count(n)
		}
		if off += int64(n); off == warm {
			close(warmed) // nothing more is sent until somebody has seen this
		}
	}
	return nil
}
