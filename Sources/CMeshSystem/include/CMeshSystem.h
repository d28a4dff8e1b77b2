// What Swift's Glibc module does not show, as plain functions over plain structs. Every function that can fail returns
// a negative errno; none keeps a pointer.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// An IPv4 or IPv6 address. `high` and `low` hold the address in network order as big-endian numbers; IPv4 fills the
/// upper half of `high`. `port` is in host order; `family` is 4 or 6.
struct mesh_address {
    uint64_t high;
    uint64_t low;
    uint32_t scope;
    uint16_t port;
    uint8_t family;
};

// Clocks, randomness, memory.

/// For how long the machine was suspended since it was booted, in nanoseconds: CLOCK_BOOTTIME − CLOCK_MONOTONIC, to
/// within the microsecond or so that reading them takes.
int64_t mesh_suspended_nanoseconds(void);
/// CLOCK_MONOTONIC and CLOCK_REALTIME in nanoseconds.
int64_t mesh_monotonic_nanoseconds(void);
int64_t mesh_realtime_nanoseconds(void);
/// How late, in nanoseconds, the kernel may fire this thread's timers.
void mesh_set_timer_slack(uint64_t nanoseconds);
/// Fills `bytes` from the kernel's generator. 0, or a negative errno with nothing usable written.
int mesh_random(uint8_t *bytes, size_t count);
void mesh_wipe(uint8_t *bytes, size_t count);
/// Names the calling thread, at most 15 characters.
void mesh_name_thread(const char *name);
/// Writing to a closed pipe or socket returns EPIPE instead of ending the process.
void mesh_ignore_broken_pipes(void);

// Waiting.

int mesh_poller_create(void);
/// Watches a descriptor for reading and errors; `edge` reports each arrival once instead of as long as it lasts.
int mesh_poller_add(int poller, int descriptor, uint64_t tag, int edge);
int mesh_poller_remove(int poller, int descriptor);
/// Waits at most `nanoseconds` (negative: for ever) and stores the tags of ready descriptors. Their number; 0 also when
/// a signal came in between.
int mesh_poller_wait(int poller, uint64_t *tags, int capacity, int64_t nanoseconds);
/// A bell that another thread rings to end a wait.
int mesh_bell_create(void);
void mesh_bell_ring(int bell);
int mesh_close(int descriptor);

// Datagrams.

struct mesh_arrival {
    /// CLOCK_REALTIME of the kernel's receipt, or 0.
    int64_t stamp;
    struct mesh_address source;
    /// Bytes in the slot.
    uint32_t length;
    /// Bytes of each datagram in it but the last, 0 when there is one only.
    uint32_t segment;
    /// Nonzero when the slot was too small.
    uint32_t truncated;
};

/// A non-blocking UDP socket bound to `local`, with kernel receive stamps, GRO, an error queue, DF set and ICMP's MTU
/// ignored. `segments` is set to whether it can send trains.
int mesh_datagram_open(const struct mesh_address *local, int buffer_bytes, int *segments);
int mesh_socket_address(int descriptor, struct mesh_address *local);
/// Receives into `slots` buffers of `slot_bytes` each (at most 16). The number received, -EAGAIN when there is nothing.
/// `overflow`, when a new count came in, receives how many arrivals the kernel dropped since the socket was opened.
int mesh_datagram_receive(int descriptor, uint8_t *slots_start, size_t slot_bytes, int slots,
                          struct mesh_arrival *arrivals, uint32_t *overflow);
/// Sends `count` bytes as datagrams of `segment` bytes (0: one datagram).
int64_t mesh_datagram_send(int descriptor, const uint8_t *bytes, size_t count, const struct mesh_address *destination,
                           uint16_t segment);
/// Takes one entry from the error queue: 1 and its errno and destination, 0 when the queue is empty.
int mesh_datagram_take_error(int descriptor, struct mesh_address *destination, int *error);
/// Waits at most `milliseconds` for room to send.
int mesh_wait_writable(int descriptor, int milliseconds);

// Beacons.

/// A shared non-blocking UDP socket on `port` for multicast; `family` is 4 or 6.
int mesh_beacon_open(int family, uint16_t port);
int mesh_beacon_join(int descriptor, const struct mesh_address *group, uint32_t interface);
int mesh_beacon_leave(int descriptor, const struct mesh_address *group, uint32_t interface);
int64_t mesh_beacon_send(int descriptor, const uint8_t *bytes, size_t count, const struct mesh_address *group,
                         uint32_t interface);

// Interfaces.

struct mesh_interface {
    struct mesh_address address;
    uint32_t index;
    uint32_t flags;
    char name[16];
};

enum { MESH_UP = 1, MESH_LOOPBACK = 2, MESH_MULTICAST = 4, MESH_POINT_TO_POINT = 8 };

/// One entry per interface address. The number stored.
int mesh_interfaces(struct mesh_interface *entries, int capacity);
/// A socket that becomes readable when links or addresses change.
int mesh_netlink_open(void);
/// Reads all notices; nonzero when there were any.
int mesh_netlink_drain(int descriptor);

// Files.

/// Takes an exclusive lock without waiting: 0, -EWOULDBLOCK when another process has it.
int mesh_lock_file(int descriptor);
void mesh_unlock_file(int descriptor);
/// Where the next bytes that are not a hole begin, at `offset` or later; -ENXIO when there are none.
int64_t mesh_next_data(int descriptor, int64_t offset);
/// Renames and fails with -EEXIST when the target exists, where the file system can; else links and unlinks.
int mesh_rename_new(int from_directory, const char *from, int to_directory, const char *to);

/// The kernel's number for the kind of file system that holds `descriptor`; negative errno.
int64_t mesh_file_system_kind(int descriptor);

// Control sockets.

/// The longest path a Unix socket takes, in bytes.
int mesh_local_path_limit(void);
int mesh_local_listen(const char *path, int backlog);
int mesh_local_connect(const char *path);
/// A connection, waiting for one until `bell` is rung (-ECANCELED).
int mesh_local_accept(int descriptor, int bell);
/// Reads what is there, waiting until `bell` is rung (-ECANCELED). 0 at the end.
int64_t mesh_local_read(int descriptor, int bell, uint8_t *bytes, size_t count);
/// Writes all of it, waiting until `bell` is rung (-ECANCELED).
int64_t mesh_local_write(int descriptor, int bell, const uint8_t *bytes, size_t count);
int mesh_local_peer(int descriptor, int32_t *pid, uint32_t *user);
