#include "supervisor.h"
#include <dirent.h>
#include <sys/sysmacros.h>

/* A plain tar of a folder, with the long names of GNU tar. Links are entries and are not followed; sockets, pipes and devices are left out. */

#define BLOCK_BYTES 512
#define DEPTH_MAX 256

static char path[PATH_BYTES_MAX];
static uint8_t buffer[256 << 10];
static size_t buffered;

static void flush(void) {
  if (!write_all(WORKER_OUT, buffer, buffered)) _exit(0);
  buffered = 0;
}

static void emit(const void *bytes, size_t length) {
  const uint8_t *at = bytes;
  while (length > 0) {
    size_t part = sizeof buffer - buffered < length ? sizeof buffer - buffered : length;
    memcpy(buffer + buffered, at, part);
    buffered += part;
    at += part;
    length -= part;
    if (buffered == sizeof buffer) flush();
  }
}

static void emit_zeros(uint64_t length) {
  static const uint8_t zeros[BLOCK_BYTES];
  while (length > 0) {
    size_t part = length < sizeof zeros ? (size_t)length : sizeof zeros;
    emit(zeros, part);
    length -= part;
  }
}

static uint64_t padding(uint64_t length) {
  return (BLOCK_BYTES - length % BLOCK_BYTES) % BLOCK_BYTES;
}

/* A number in octal, or in the base 256 of GNU tar if it is too large for that. */
static void put_octal(uint8_t *at, int width, uint64_t value) {
  if (value >> (3 * (width - 1)) == 0) {
    snprintf((char *)at, (size_t)width, "%0*llo", width - 1, (unsigned long long)value);
    return;
  }
  for (int i = width - 1; i > 0; i--, value >>= 8) at[i] = (uint8_t)value;
  at[0] = 0x80;
}

static void emit_header(const char *name, const char *link, char type, const struct stat *found, uint64_t size) {
  uint8_t block[BLOCK_BYTES] = {0};
  memcpy(block, name, strnlen(name, 100));
  put_octal(block + 100, 8, found->st_mode & 07777);
  put_octal(block + 108, 8, found->st_uid);
  put_octal(block + 116, 8, found->st_gid);
  put_octal(block + 124, 12, size);
  put_octal(block + 136, 12, found->st_mtime < 0 ? 0 : (uint64_t)found->st_mtime);
  memset(block + 148, ' ', 8);
  block[156] = (uint8_t)type;
  memcpy(block + 157, link, strnlen(link, 100));
  memcpy(block + 257, "ustar  ", 8);
  unsigned sum = 0;
  for (int i = 0; i < BLOCK_BYTES; i++) sum += block[i];
  snprintf((char *)block + 148, 8, "%06o", sum);
  block[155] = ' ';
  emit(block, sizeof block);
}

static void emit_long(char type, const char *text) {
  static const struct stat nothing;
  size_t length = strlen(text) + 1;
  if (length <= 100 + 1) return;
  emit_header("././@LongLink", "", type, &nothing, length);
  emit(text, length);
  emit_zeros(padding(length));
}

static void emit_entry(const char *link, char type, const struct stat *found, uint64_t size) {
  emit_long('K', link);
  emit_long('L', path);
  emit_header(path, link, type, found, size);
}

static void emit_file(int folder, const char *name) {
  struct stat found;
  int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return;
  if (fstat(file, &found) == 0 && S_ISREG(found.st_mode)) {
    static uint8_t block[64 << 10];
    uint64_t left = (uint64_t)found.st_size;
    emit_entry("", '0', &found, left);
    while (left > 0) {
      ssize_t got = read(file, block, left < sizeof block ? (size_t)left : sizeof block);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      emit(block, (size_t)got);
      left -= (uint64_t)got;
    }
    /* It became shorter meanwhile. */
    emit_zeros(left + padding((uint64_t)found.st_size));
  }
  close(file);
}

static bool is_closed(const char *name) {
  return strcmp(name, "proc") == 0 || strcmp(name, "sys") == 0 || strcmp(name, "dev") == 0;
}

static void emit_folder(int folder, size_t length, int depth) {
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (entries == NULL) return;
  struct dirent *entry;
  while ((entry = readdir(entries)) != NULL) {
    struct stat found;
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (length == 0 && is_closed(name))) continue;
    if (length + strlen(name) + 2 >= sizeof path || fstatat(fd, name, &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    size_t end = length + (size_t)snprintf(path + length, sizeof path - length, "%s", name);
    if (S_ISREG(found.st_mode)) {
      emit_file(fd, name);
    } else if (S_ISLNK(found.st_mode)) {
      char goal[PATH_MAX];
      ssize_t size = readlinkat(fd, name, goal, sizeof goal - 1);
      if (size < 0) continue;
      goal[size] = 0;
      emit_entry(goal, '2', &found, 0);
    } else if (S_ISDIR(found.st_mode)) {
      int inner = enter(fd, name);
      if (inner < 0) continue;
      path[end] = '/';
      path[end + 1] = 0;
      emit_entry("", '5', &found, 0);
      if (depth < DEPTH_MAX) emit_folder(inner, end + 1, depth + 1);
      close(inner);
    }
  }
  closedir(entries);
}

void write_tar(int folder, const char *name) {
  struct stat found;
  size_t length = 0;
  if (*name != 0 && fstat(folder, &found) == 0) {
    length = (size_t)snprintf(path, sizeof path, "%s/", name);
    emit_entry("", '5', &found, 0);
  }
  emit_folder(folder, length, 0);
  emit_zeros(2 * BLOCK_BYTES);
  flush();
}
