#include "CMeshSystem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

static const int yes = 1;

// MARK: Clocks, randomness, memory

static int64_t nanoseconds_of(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t mesh_monotonic_nanoseconds(void) { return nanoseconds_of(CLOCK_MONOTONIC); }

int64_t mesh_suspended_nanoseconds(void) {
    // The two clocks are read one after the other: of a few tries the one that took least is the truest.
    int64_t best = 0, shortest = INT64_MAX;
    for (int attempt = 0; attempt < 3 && shortest > 2000; attempt++) {
        int64_t before = nanoseconds_of(CLOCK_MONOTONIC);
        int64_t boot = nanoseconds_of(CLOCK_BOOTTIME);
        int64_t after = nanoseconds_of(CLOCK_MONOTONIC);
        if (after - before < shortest) {
            shortest = after - before;
            best = boot - before;
        }
    }
    return best;
}
int64_t mesh_realtime_nanoseconds(void) { return nanoseconds_of(CLOCK_REALTIME); }

void mesh_set_timer_slack(uint64_t nanoseconds) { prctl(PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0); }

int mesh_random(uint8_t *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        ssize_t got = getrandom(bytes + done, count - done, 0);
        if (got < 0) {
            if (errno == EINTR) continue;
            return -errno;
        }
        done += (size_t)got;
    }
    return 0;
}

void mesh_wipe(uint8_t *bytes, size_t count) { explicit_bzero(bytes, count); }

void mesh_name_thread(const char *name) {
    char shortened[16];
    snprintf(shortened, sizeof shortened, "%s", name);
    pthread_setname_np(pthread_self(), shortened);
}

void mesh_ignore_broken_pipes(void) { signal(SIGPIPE, SIG_IGN); }

// MARK: Waiting

int mesh_poller_create(void) {
    int poller = epoll_create1(EPOLL_CLOEXEC);
    return poller < 0 ? -errno : poller;
}

int mesh_poller_add(int poller, int descriptor, uint64_t tag, int edge) {
    struct epoll_event event = {.events = EPOLLIN | (edge ? EPOLLET : 0), .data.u64 = tag};
    return epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) < 0 ? -errno : 0;
}

int mesh_poller_remove(int poller, int descriptor) {
    return epoll_ctl(poller, EPOLL_CTL_DEL, descriptor, NULL) < 0 ? -errno : 0;
}

int mesh_poller_wait(int poller, uint64_t *tags, int capacity, int64_t nanoseconds) {
    struct epoll_event events[64];
    if (capacity > 64) capacity = 64;
    struct timespec limit = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
    int ready = epoll_pwait2(poller, events, capacity, nanoseconds < 0 ? NULL : &limit, NULL);
    if (ready < 0 && errno == ENOSYS) {
        // Before Linux 5.11: whole milliseconds, rounded up so that a deadline is never met too early.
        int64_t milliseconds = nanoseconds < 0 ? -1 : (nanoseconds + 999999) / 1000000;
        ready = epoll_wait(poller, events, capacity, milliseconds > 1000000 ? 1000000 : (int)milliseconds);
    }
    if (ready < 0) return errno == EINTR ? 0 : -errno;
    for (int index = 0; index < ready; index++) tags[index] = events[index].data.u64;
    return ready;
}

int mesh_bell_create(void) {
    int bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return bell < 0 ? -errno : bell;
}

void mesh_bell_ring(int bell) {
    uint64_t one = 1;
    // Only a full counter can refuse, and then the bell is already ringing.
    while (write(bell, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

int mesh_close(int descriptor) { return close(descriptor) < 0 ? -errno : 0; }

// MARK: Addresses

static socklen_t to_kernel(const struct mesh_address *address, struct sockaddr_storage *out) {
    memset(out, 0, sizeof *out);
    if (address->family == 4) {
        struct sockaddr_in *four = (struct sockaddr_in *)out;
        four->sin_family = AF_INET;
        four->sin_port = htons(address->port);
        four->sin_addr.s_addr = htonl((uint32_t)(address->high >> 32));
        return sizeof *four;
    }
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(address->port);
    six->sin6_scope_id = address->scope;
    for (int index = 0; index < 8; index++) {
        six->sin6_addr.s6_addr[index] = (uint8_t)(address->high >> (56 - 8 * index));
        six->sin6_addr.s6_addr[8 + index] = (uint8_t)(address->low >> (56 - 8 * index));
    }
    return sizeof *six;
}

static void from_kernel(const struct sockaddr *address, struct mesh_address *out) {
    memset(out, 0, sizeof *out);
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        out->family = 4;
        out->port = ntohs(four->sin_port);
        out->high = (uint64_t)ntohl(four->sin_addr.s_addr) << 32;
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
        out->family = 6;
        out->port = ntohs(six->sin6_port);
        out->scope = six->sin6_scope_id;
        for (int index = 0; index < 8; index++) {
            out->high = out->high << 8 | six->sin6_addr.s6_addr[index];
            out->low = out->low << 8 | six->sin6_addr.s6_addr[8 + index];
        }
    }
}

// MARK: Datagrams

static void enlarge_buffers(int descriptor, int bytes) {
    // The forcing variants need a right that an ordinary node lacks; the plain ones stop at the system's limit.
    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (setsockopt(descriptor, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

int mesh_datagram_open(const struct mesh_address *local, int buffer_bytes, int *segments) {
    int domain = local->family == 4 ? AF_INET : AF_INET6;
    int descriptor = socket(domain, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -errno;
    // PROBE sets DF and ignores the path MTU that ICMP claims: only acknowledged probes move a link's size.
    if (domain == AF_INET) {
        int discover = IP_PMTUDISC_PROBE;
        setsockopt(descriptor, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover);
        setsockopt(descriptor, IPPROTO_IP, IP_RECVERR, &yes, sizeof yes);
    } else {
        int discover = IPV6_PMTUDISC_PROBE;
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover, sizeof discover);
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVERR, &yes, sizeof yes);
    }
    setsockopt(descriptor, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes);
    setsockopt(descriptor, SOL_SOCKET, SO_RXQ_OVFL, &yes, sizeof yes);
    setsockopt(descriptor, IPPROTO_UDP, UDP_GRO, &yes, sizeof yes);
    enlarge_buffers(descriptor, buffer_bytes);
    int none = 0;
    *segments = setsockopt(descriptor, IPPROTO_UDP, UDP_SEGMENT, &none, sizeof none) == 0;
    struct sockaddr_storage address;
    socklen_t length = to_kernel(local, &address);
    if (bind(descriptor, (struct sockaddr *)&address, length) < 0) {
        int error = errno;
        close(descriptor);
        return -error;
    }
    return descriptor;
}

int mesh_socket_address(int descriptor, struct mesh_address *local) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(descriptor, (struct sockaddr *)&address, &length) < 0) return -errno;
    from_kernel((struct sockaddr *)&address, local);
    return 0;
}

enum { maximum_slots = 16, control_bytes = 256 };

static void read_control(struct msghdr *header, struct mesh_arrival *arrival, uint32_t *overflow) {
    for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item != NULL; item = CMSG_NXTHDR(header, item)) {
        if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec stamp;
            memcpy(&stamp, CMSG_DATA(item), sizeof stamp);
            arrival->stamp = (int64_t)stamp.tv_sec * 1000000000 + stamp.tv_nsec;
        } else if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SO_RXQ_OVFL) {
            memcpy(overflow, CMSG_DATA(item), sizeof *overflow);
        } else if (item->cmsg_level == IPPROTO_UDP && item->cmsg_type == UDP_GRO) {
            int segment;
            memcpy(&segment, CMSG_DATA(item), sizeof segment);
            arrival->segment = segment > 0 && (uint32_t)segment < arrival->length ? (uint32_t)segment : 0;
        }
    }
}

int mesh_datagram_receive(int descriptor, uint8_t *slots_start, size_t slot_bytes, int slots,
                          struct mesh_arrival *arrivals, uint32_t *overflow) {
    struct mmsghdr headers[maximum_slots];
    struct iovec vectors[maximum_slots];
    struct sockaddr_storage sources[maximum_slots];
    _Alignas(struct cmsghdr) char control[maximum_slots][control_bytes];
    if (slots > maximum_slots) slots = maximum_slots;
    memset(headers, 0, sizeof headers[0] * (size_t)slots);
    for (int index = 0; index < slots; index++) {
        vectors[index] = (struct iovec){.iov_base = slots_start + slot_bytes * (size_t)index, .iov_len = slot_bytes};
        headers[index].msg_hdr = (struct msghdr){
            .msg_name = &sources[index], .msg_namelen = sizeof sources[index], .msg_iov = &vectors[index],
            .msg_iovlen = 1, .msg_control = control[index], .msg_controllen = control_bytes};
    }
    int received;
    do {
        received = recvmmsg(descriptor, headers, (unsigned)slots, MSG_DONTWAIT, NULL);
    } while (received < 0 && errno == EINTR);
    if (received < 0) return -errno;
    for (int index = 0; index < received; index++) {
        struct mesh_arrival *arrival = &arrivals[index];
        memset(arrival, 0, sizeof *arrival);
        arrival->length = headers[index].msg_len;
        arrival->truncated = (headers[index].msg_hdr.msg_flags & MSG_TRUNC) != 0;
        from_kernel((struct sockaddr *)&sources[index], &arrival->source);
        read_control(&headers[index].msg_hdr, arrival, overflow);
    }
    return received;
}

int64_t mesh_datagram_send(int descriptor, const uint8_t *bytes, size_t count, const struct mesh_address *destination,
                           uint16_t segment) {
    struct sockaddr_storage address;
    struct iovec vector = {.iov_base = (void *)bytes, .iov_len = count};
    struct msghdr header = {.msg_name = &address, .msg_iov = &vector, .msg_iovlen = 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))];
    header.msg_namelen = to_kernel(destination, &address);
    if (segment != 0) {
        memset(control, 0, sizeof control);
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        struct cmsghdr *item = CMSG_FIRSTHDR(&header);
        item->cmsg_level = IPPROTO_UDP;
        item->cmsg_type = UDP_SEGMENT;
        item->cmsg_len = CMSG_LEN(sizeof segment);
        memcpy(CMSG_DATA(item), &segment, sizeof segment);
    }
    ssize_t sent;
    do {
        sent = sendmsg(descriptor, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

int mesh_datagram_take_error(int descriptor, struct mesh_address *destination, int *error) {
    uint8_t payload[64];
    struct sockaddr_storage address;
    _Alignas(struct cmsghdr) char control[512];
    struct iovec vector = {.iov_base = payload, .iov_len = sizeof payload};
    struct msghdr header = {.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &vector, .msg_iovlen = 1,
                            .msg_control = control, .msg_controllen = sizeof control};
    memset(&address, 0, sizeof address);
    if (recvmsg(descriptor, &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return 0;
    *error = 0;
    from_kernel((struct sockaddr *)&address, destination);
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&header); item != NULL; item = CMSG_NXTHDR(&header, item)) {
        int is_four = item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_RECVERR;
        int is_six = item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_RECVERR;
        if (!is_four && !is_six) continue;
        struct sock_extended_err report;
        memcpy(&report, CMSG_DATA(item), sizeof report);
        *error = (int)report.ee_errno;
    }
    return 1;
}

int mesh_wait_writable(int descriptor, int milliseconds) {
    struct pollfd wanted = {.fd = descriptor, .events = POLLOUT};
    int ready = poll(&wanted, 1, milliseconds);
    return ready < 0 ? -errno : ready;
}

// MARK: Beacons

int mesh_beacon_open(int family, uint16_t port) {
    int domain = family == 4 ? AF_INET : AF_INET6;
    int descriptor = socket(domain, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -errno;
    // Several nodes of one machine share the port; each hears every beacon.
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
    int none = 0, hops = 1;
    struct mesh_address any = {.family = (uint8_t)family, .port = port};
    if (domain == AF_INET) {
        setsockopt(descriptor, IPPROTO_IP, IP_MULTICAST_ALL, &none, sizeof none);
        setsockopt(descriptor, IPPROTO_IP, IP_MULTICAST_LOOP, &yes, sizeof yes);
        setsockopt(descriptor, IPPROTO_IP, IP_MULTICAST_TTL, &hops, sizeof hops);
    } else {
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &yes, sizeof yes);
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &hops, sizeof hops);
    }
    struct sockaddr_storage address;
    socklen_t length = to_kernel(&any, &address);
    if (bind(descriptor, (struct sockaddr *)&address, length) < 0) {
        int error = errno;
        close(descriptor);
        return -error;
    }
    return descriptor;
}

static int change_group(int descriptor, const struct mesh_address *group, uint32_t interface, int join) {
    struct group_req request;
    memset(&request, 0, sizeof request);
    request.gr_interface = interface;
    to_kernel(group, &request.gr_group);
    int level = group->family == 4 ? IPPROTO_IP : IPPROTO_IPV6;
    int option = join ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP;
    return setsockopt(descriptor, level, option, &request, sizeof request) < 0 ? -errno : 0;
}

int mesh_beacon_join(int descriptor, const struct mesh_address *group, uint32_t interface) {
    return change_group(descriptor, group, interface, 1);
}

int mesh_beacon_leave(int descriptor, const struct mesh_address *group, uint32_t interface) {
    return change_group(descriptor, group, interface, 0);
}

int64_t mesh_beacon_send(int descriptor, const uint8_t *bytes, size_t count, const struct mesh_address *group,
                         uint32_t interface) {
    struct sockaddr_storage address;
    struct iovec vector = {.iov_base = (void *)bytes, .iov_len = count};
    struct msghdr header = {.msg_name = &address, .msg_iov = &vector, .msg_iovlen = 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in_pktinfo))];
    header.msg_namelen = to_kernel(group, &address);
    if (group->family == 4) {
        struct in_pktinfo way = {.ipi_ifindex = (int)interface};
        memset(control, 0, sizeof control);
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        struct cmsghdr *item = CMSG_FIRSTHDR(&header);
        item->cmsg_level = IPPROTO_IP;
        item->cmsg_type = IP_PKTINFO;
        item->cmsg_len = CMSG_LEN(sizeof way);
        memcpy(CMSG_DATA(item), &way, sizeof way);
    } else {
        ((struct sockaddr_in6 *)&address)->sin6_scope_id = interface;
    }
    ssize_t sent;
    do {
        sent = sendmsg(descriptor, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

// MARK: Interfaces

static uint32_t flags_of(unsigned kernel) {
    uint32_t flags = 0;
    if ((kernel & IFF_UP) && (kernel & IFF_RUNNING)) flags |= MESH_UP;
    if (kernel & IFF_LOOPBACK) flags |= MESH_LOOPBACK;
    if (kernel & IFF_MULTICAST) flags |= MESH_MULTICAST;
    if (kernel & IFF_POINTOPOINT) flags |= MESH_POINT_TO_POINT;
    return flags;
}

int mesh_interfaces(struct mesh_interface *entries, int capacity) {
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) < 0) return -errno;
    int count = 0;
    for (struct ifaddrs *item = list; item != NULL && count < capacity; item = item->ifa_next) {
        if (item->ifa_addr == NULL) continue;
        int family = item->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        struct mesh_interface *entry = &entries[count++];
        memset(entry, 0, sizeof *entry);
        from_kernel(item->ifa_addr, &entry->address);
        entry->index = if_nametoindex(item->ifa_name);
        entry->flags = flags_of(item->ifa_flags);
        snprintf(entry->name, sizeof entry->name, "%s", item->ifa_name);
    }
    freeifaddrs(list);
    return count;
}

int mesh_netlink_open(void) {
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (descriptor < 0) return -errno;
    struct sockaddr_nl address = {
        .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) < 0) {
        int error = errno;
        close(descriptor);
        return -error;
    }
    return descriptor;
}

int mesh_netlink_drain(int descriptor) {
    char notice[8192];
    int any = 0;
    for (;;) {
        ssize_t got = recv(descriptor, notice, sizeof notice, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        // ENOBUFS: notices were lost, so something changed.
        if (got < 0 && errno == ENOBUFS) {
            any = 1;
            continue;
        }
        if (got <= 0) return any;
        any = 1;
    }
}

// MARK: Files

int mesh_lock_file(int descriptor) {
    int result;
    do {
        result = flock(descriptor, LOCK_EX | LOCK_NB);
    } while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : 0;
}

void mesh_unlock_file(int descriptor) { flock(descriptor, LOCK_UN); }

int64_t mesh_next_data(int descriptor, int64_t offset) {
    off_t next = lseek(descriptor, offset, SEEK_DATA);
    return next < 0 ? -errno : next;
}

int64_t mesh_file_system_kind(int descriptor) {
    struct statfs information;
    return fstatfs(descriptor, &information) < 0 ? -errno : (int64_t)information.f_type;
}

int mesh_rename_new(int from_directory, const char *from, int to_directory, const char *to) {
    if (renameat2(from_directory, from, to_directory, to, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -errno;
    // File systems without RENAME_NOREPLACE: a link fails on an existing target just as atomically.
    if (linkat(from_directory, from, to_directory, to, 0) < 0) return -errno;
    return unlinkat(from_directory, from, 0) < 0 ? -errno : 0;
}

// MARK: Control sockets

int mesh_local_path_limit(void) { return (int)sizeof(((struct sockaddr_un *)0)->sun_path) - 1; }

static int local_address(const char *path, struct sockaddr_un *address) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address->sun_path) return -ENAMETOOLONG;
    strcpy(address->sun_path, path);
    return 0;
}

int mesh_local_listen(const char *path, int backlog) {
    struct sockaddr_un address;
    if (local_address(path, &address) < 0) return -ENAMETOOLONG;
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -errno;
    // On Linux the mode of the socket before bind is the mode of the file: never open to others, not for an instant.
    fchmod(descriptor, 0600);
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) < 0 || chmod(path, 0600) < 0 ||
        listen(descriptor, backlog) < 0) {
        int error = errno;
        close(descriptor);
        return -error;
    }
    return descriptor;
}

int mesh_local_connect(const char *path) {
    struct sockaddr_un address;
    if (local_address(path, &address) < 0) return -ENAMETOOLONG;
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -errno;
    int result;
    do {
        result = connect(descriptor, (struct sockaddr *)&address, sizeof address);
    } while (result < 0 && errno == EINTR);
    if (result < 0) {
        int error = errno;
        close(descriptor);
        return -error;
    }
    return descriptor;
}

/// Waits for `events` on `descriptor`; -ECANCELED once `bell` was rung.
static int wait_or_bell(int descriptor, short events, int bell) {
    struct pollfd wanted[2] = {{.fd = descriptor, .events = events}, {.fd = bell, .events = POLLIN}};
    for (;;) {
        int ready = poll(wanted, 2, -1);
        if (ready < 0 && errno == EINTR) continue;
        if (ready < 0) return -errno;
        if (wanted[1].revents != 0) return -ECANCELED;
        if (wanted[0].revents != 0) return 0;
    }
}

int mesh_local_accept(int descriptor, int bell) {
    for (;;) {
        int result = wait_or_bell(descriptor, POLLIN, bell);
        if (result < 0) return result;
        int accepted = accept4(descriptor, NULL, NULL, SOCK_CLOEXEC);
        if (accepted >= 0) return accepted;
        if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) return -errno;
    }
}

int64_t mesh_local_read(int descriptor, int bell, uint8_t *bytes, size_t count) {
    for (;;) {
        int result = wait_or_bell(descriptor, POLLIN, bell);
        if (result < 0) return result;
        ssize_t got = recv(descriptor, bytes, count, MSG_DONTWAIT);
        if (got >= 0) return got;
        if (errno != EINTR && errno != EAGAIN) return -errno;
    }
}

int64_t mesh_local_write(int descriptor, int bell, const uint8_t *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        ssize_t put = send(descriptor, bytes + done, count - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put >= 0) {
            done += (size_t)put;
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return -errno;
        int result = wait_or_bell(descriptor, POLLOUT, bell);
        if (result < 0) return result;
    }
    return (int64_t)done;
}

int mesh_local_peer(int descriptor, int32_t *pid, uint32_t *user) {
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) return -errno;
    *pid = credentials.pid;
    *user = credentials.uid;
    return 0;
}
