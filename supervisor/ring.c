#include "keeper.h"
#include <sys/mman.h>

#define CAPACITY_MIN (16u << 10)

/* Memory of its own, which no runner gets a copy of. */
static uint8_t *reserve(size_t size) {
  void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED) return NULL;
  madvise(bytes, size, MADV_DONTFORK);
  return bytes;
}

const uint8_t *ring_at(const struct ring *ring, uint64_t offset, size_t *length) {
  size_t at = (size_t)(offset % ring->capacity), rest = ring->capacity - at;
  *length = ring->end - offset < rest ? (size_t)(ring->end - offset) : rest;
  return ring->bytes + at;
}

static bool move(struct ring *ring, size_t capacity) {
  struct ring other = {reserve(capacity), capacity, ring->start, ring->end};
  if (other.bytes == NULL) return false;
  if (other.end - other.start > capacity) other.start = other.end - capacity;
  for (uint64_t offset = other.start; offset < other.end;) {
    size_t length, room;
    const uint8_t *from = ring_at(ring, offset, &length);
    uint8_t *to = (uint8_t *)ring_at(&other, offset, &room);
    if (length > room) length = room;
    memcpy(to, from, length);
    offset += length;
  }
  if (ring->bytes != NULL) munmap(ring->bytes, ring->capacity);
  *ring = other;
  return true;
}

void ring_shrink(struct ring *ring, size_t most) {
  uint64_t kept = ring->end - ring->start;
  if (kept > most) ring->start = ring->end - most;
  kept = ring->end - ring->start;
  if (kept == 0) {
    if (ring->bytes != NULL) munmap(ring->bytes, ring->capacity);
    ring->bytes = NULL;
    ring->capacity = 0;
  } else if (kept < ring->capacity) {
    move(ring, (size_t)kept);
  }
}

ssize_t ring_read(struct ring *ring, int fd, size_t most) {
  size_t kept = (size_t)(ring->end - ring->start);
  if (ring->capacity < KEPT_BYTES_MAX && kept + CAPACITY_MIN > ring->capacity) {
    size_t wanted = ring->capacity < CAPACITY_MIN ? CAPACITY_MIN : ring->capacity * 2;
    /* Without more memory, older bytes make room. */
    if (!move(ring, wanted > KEPT_BYTES_MAX ? KEPT_BYTES_MAX : wanted) && ring->bytes == NULL) {
      errno = ENOMEM;
      return -1;
    }
  }
  size_t at = (size_t)(ring->end % ring->capacity), room = ring->capacity - at;
  ssize_t got = read(fd, ring->bytes + at, room < most ? room : most);
  if (got > 0) ring->end += (uint64_t)got;
  if (ring->end - ring->start > ring->capacity) ring->start = ring->end - ring->capacity;
  return got;
}
