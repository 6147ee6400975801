package daemon

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Systemd is a connection to the host's systemd.
type Systemd struct{ conn *dbus.Conn }

// Unit is a systemd service as far as a restart of it matters.
type Unit struct {
	// Name of the unit (containerd.service).
	Name string
	// KillMode says what is killed with the main process.
	KillMode string
	// Type is the service type (notify, simple).
	Type string
}

// DialSystemd connects to the host's systemd over its D-Bus socket.
func DialSystemd(ctx context.Context, socket string) (*Systemd, error) {
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		bus, err := godbus.Dial("unix:path="+socket, godbus.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		if err := bus.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
			_ = bus.Close()
			return nil, err
		}
		if err := bus.Hello(); err != nil {
			_ = bus.Close()
			return nil, err
		}
		return bus, nil
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd at %q: %w", socket, err)
	}
	return &Systemd{conn: conn}, nil
}

// Close ends the connection.
func (s *Systemd) Close() { s.conn.Close() }

// UnitOf finds the unit that a process belongs to.
func (s *Systemd) UnitOf(ctx context.Context, pid int) (Unit, error) {
	name, err := s.conn.GetUnitNameByPID(ctx, uint32(pid))
	if err != nil {
		return Unit{}, fmt.Errorf("finding the unit of process %d: %w", pid, err)
	}
	u := Unit{Name: name}
	for property, field := range map[string]*string{"KillMode": &u.KillMode, "Type": &u.Type} {
		p, err := s.conn.GetUnitTypePropertyContext(ctx, name, "Service", property)
		if err != nil {
			return u, fmt.Errorf("reading %s of unit %q: %w", property, name, err)
		}
		*field, _ = p.Value.Value().(string)
	}
	return u, nil
}

// KillsContainers says that a restart of the unit takes the containers with it:
// their shims live in the unit's control group.
func (u Unit) KillsContainers() bool { return u.KillMode == "control-group" || u.KillMode == "mixed" }

// Restart restarts a unit and waits until systemd says that the job is done.
func (s *Systemd) Restart(ctx context.Context, unit string) error {
	done := make(chan string, 1)
	if _, err := s.conn.RestartUnitContext(ctx, unit, "replace", done); err != nil {
		return fmt.Errorf("restarting unit %q: %w", unit, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("restarting unit %q: systemd's job ended with %q", unit, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("restarting unit %q: %w", unit, ctx.Err())
	}
}
