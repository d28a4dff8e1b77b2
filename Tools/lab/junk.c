// junk: sends datagrams that no node should answer, and counts what comes back to the sender.
//
//   junk ADDRESS PORT COUNT [PER_SECOND] [SEED] < foreign.hex
//
// Standard input holds datagrams in hexadecimal, one a line (an empty line is an empty datagram); each goes out first.
// Then COUNT made ones follow, in turn: random bytes; our own types with every length right and the rest random; our
// own types cut short; one byte repeated. Prints `sent N` and `received back N`, the latter a second after the last.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LARGEST 1400
#define HANDSHAKE 352  // INIT, RESP and FIN have this length (Docs/Protocol.md, "Handshake datagrams")

static uint64_t state;

static uint64_t random64(void) {  // splitmix64: one seed, one run
  uint64_t z = state += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void fill(uint8_t *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)random64();
}

static size_t make(uint64_t number, uint8_t *bytes) {
  size_t count = (size_t)(random64() % (LARGEST + 1));
  uint8_t type = (uint8_t)(1 + random64() % 5);
  switch (number % 4) {
    case 0: fill(bytes, count); return count;
    case 1:
      count = type <= 3 ? HANDSHAKE : count;
      fill(bytes, count);
      if (count >= 4) { memset(bytes, 0, 4); bytes[0] = type; }
      return count;
    case 2:
      count %= HANDSHAKE;
      fill(bytes, count);
      if (count > 0) bytes[0] = type;
      return count;
    default: memset(bytes, (int)(random64() & 0xff), count); return count;
  }
}

static int value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// One line of hexadecimal digits as bytes; -1 when it is something else.
static ssize_t decode(const char *line, uint8_t *bytes, size_t room) {
  size_t digits = strcspn(line, "\r\n");
  if (digits % 2 || digits / 2 > room) return -1;
  for (size_t i = 0; i < digits / 2; i++) {
    int high = value(line[2 * i]), low = value(line[2 * i + 1]);
    if (high < 0 || low < 0) return -1;
    bytes[i] = (uint8_t)(high << 4 | low);
  }
  return (ssize_t)(digits / 2);
}

static int transmit(int socket, const uint8_t *bytes, size_t count) {
  for (;;) {
    if (send(socket, bytes, count, 0) >= 0) return 1;
    if (errno == ENOBUFS || errno == EAGAIN || errno == EINTR) { usleep(200); continue; }
    if (errno == ECONNREFUSED) continue;  // an ICMP error of an earlier one: this one was not sent
    perror("send");
    return 0;
  }
}

static uint64_t drain(int socket, int milliseconds) {
  uint64_t got = 0;
  uint8_t bytes[65536];
  struct pollfd wanted = { .fd = socket, .events = POLLIN };
  while (poll(&wanted, 1, milliseconds) > 0)
    if (recv(socket, bytes, sizeof bytes, MSG_DONTWAIT) >= 0) got++; else if (errno != ECONNREFUSED) break;
  return got;
}

int main(int argc, char **argv) {
  if (argc < 4) { fprintf(stderr, "usage: junk ADDRESS PORT COUNT [PER_SECOND] [SEED] < foreign.hex\n"); return 2; }
  struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *to;
  int error = getaddrinfo(argv[1], argv[2], &hints, &to);
  if (error) { fprintf(stderr, "junk: %s: %s\n", argv[1], gai_strerror(error)); return 2; }
  int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen)) { perror("junk"); return 1; }
  uint64_t count = strtoull(argv[3], NULL, 10), rate = argc > 4 ? strtoull(argv[4], NULL, 10) : 50000;
  state = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;

  uint64_t sent = 0, back = 0;
  static char line[2 * 65536 + 4];
  static uint8_t bytes[65536];
  while (fgets(line, sizeof line, stdin)) {
    ssize_t size = decode(line, bytes, sizeof bytes);
    if (size < 0) { fprintf(stderr, "junk: a line is not hexadecimal\n"); return 2; }
    if (!transmit(fd, bytes, (size_t)size)) return 1;
    sent++;
  }
  uint64_t start = now();
  for (uint64_t i = 0; i < count; i++) {
    if (!transmit(fd, bytes, make(i, bytes))) return 1;
    sent++;
    if (i % 64 == 0) {
      back += drain(fd, 0);
      uint64_t due = rate ? start + i * 1000000000ULL / rate : 0, at = now();
      if (due > at) usleep((useconds_t)((due - at) / 1000));
    }
  }
  double seconds = (double)(now() - start) / 1e9;
  back += drain(fd, 1000);
  printf("sent %lu\nseconds %.1f\nreceived back %lu\n", sent, seconds, back);
  return back ? 1 : 0;
}
