#include "supervisor.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

/*
 * Calls on files. Each runs in a worker of its own, as the agent's user and without its variables, and can do no more than the agent itself.
 * The field after the name of a call is the volume's path, the next one the path that the caller gave.
 */

enum { CALL, VOLUME, PATH, ARGUMENT };
#define UNFINISHED_PREFIX_FIELD 7
#define COPY_BYTES (256u << 10)
#define RENAME_NOREPLACE_FLAG 1

static uint8_t packet[PACKET_BYTES_MAX];

/* --- answers --- */

static struct writer begin(char type) {
  packet[0] = (uint8_t)type;
  return (struct writer){packet, sizeof packet, 1, false};
}

static void answer(struct writer *writer) {
  if (writer->full) _exit(125);
  while (send(WORKER_CONTROL, writer->bytes, writer->length, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}

void answer_head(struct writer *head) {
  answer(head);
}

void finish(struct writer *result) {
  answer(result);
  _exit(0);
}

static void refuse_because(const char *reason, const char *detail) {
  struct writer result = begin(PACKET_RESULT);
  put_text(&result, "refused");
  put_text(&result, reason);
  put_text(&result, detail);
  finish(&result);
}

void refuse(const char *reason) {
  refuse_because(reason, "");
  _exit(0);
}

void refuse_errno(void) {
  const char *reason = "failed";
  switch (errno) {
    case ENOSPC:
    case EDQUOT: reason = "volume_full"; break;
    case EEXIST:
    case ENOTEMPTY: reason = "exists"; break;
    case EISDIR: reason = "is_a_directory"; break;
    case ENOTDIR: reason = "not_a_directory"; break;
    case EACCES:
    case EPERM:
    case EROFS: reason = "not_permitted"; break;
    case EINVAL:
    case ENAMETOOLONG:
    case EXDEV:
    case ELOOP: reason = "invalid_path"; break;
    case ENOENT: reason = "not_found"; break;
    default: break;
  }
  refuse_because(reason, strerror(errno));
  _exit(0);
}

void await_input(void *bytes, size_t length) {
  if (read_all(WORKER_IN, bytes, length) != (ssize_t)length) _exit(0);
}

static const char *joined(int folder, const char *name) {
  static char path[PATH_MAX + NAME_MAX + 2];
  const char *found = path_of(folder);
  snprintf(path, sizeof path, "%s%s%s", strcmp(found, "/") == 0 && *name != 0 ? "" : found, *name == 0 ? "" : "/", name);
  return path;
}

/* --- list --- */

/* Removes the unfinished files that a crash left behind in the folder. */
static void sweep(int folder, const char *prefix, int64_t age_seconds) {
  if (*prefix == 0) return;
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (entries == NULL) return;
  struct dirent *entry;
  struct stat found;
  while ((entry = readdir(entries)) != NULL)
    if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && fstatat(fd, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(found.st_mode) && time(NULL) - found.st_mtime > age_seconds)
      unlinkat(fd, entry->d_name, 0);
  closedir(entries);
}

/* Arguments: the most entries, the prefix of unfinished files and the age (s) from which on they are removed. */
static void list(const struct fields *fields) {
  struct place place;
  walk(field_text(fields, PATH), true, &place);
  if (place.kind == 0) refuse("not_found");
  if (!S_ISDIR(place.kind)) refuse("not_a_directory");
  int folder = enter(place.folder, place.name);
  if (folder < 0) refuse_errno();
  if (!is_in_volume(path_of(folder))) refuse("outside_volume");
  sweep(folder, field_text(fields, ARGUMENT + 1), field_number(fields, ARGUMENT + 2, 3600));
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (entries == NULL) refuse_errno();
  struct writer head = begin(PACKET_HEAD);
  put_text(&head, volume_path);
  put_text(&head, path_of(folder));
  answer_head(&head);
  /* An entry: its mode (4 bytes), size (8), time (8), the length of its name (4) and the name. */
  static uint8_t block[32768];
  size_t length = 0;
  struct dirent *entry;
  for (int64_t most = field_number(fields, ARGUMENT, 0); most > 0 && (entry = readdir(entries)) != NULL;) {
    struct stat found;
    size_t size = strlen(entry->d_name);
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (fstatat(fd, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (sizeof block - length < 24 + size) {
      if (!write_all(WORKER_OUT, block, length)) _exit(0);
      length = 0;
    }
    put_u32(block + length, found.st_mode);
    put_u64(block + length + 4, (uint64_t)found.st_size);
    put_u64(block + length + 12, (uint64_t)found.st_mtime);
    put_u32(block + length + 20, (uint32_t)size);
    memcpy(block + length + 24, entry->d_name, size);
    length += 24 + size;
    most--;
  }
  if (!write_all(WORKER_OUT, block, length)) _exit(0);
}

/* --- read --- */

static void copy_out(int file, uint64_t start, uint64_t count) {
  static uint8_t block[COPY_BYTES];
  if (lseek(file, (off_t)start, SEEK_SET) < 0) refuse_errno();
  while (count > 0) {
    ssize_t moved = splice(file, NULL, WORKER_OUT, NULL, count > COPY_BYTES ? COPY_BYTES : (size_t)count, 0);
    /* File systems that can't be spliced from. */
    if (moved < 0 && (errno == EINVAL || errno == ENOSYS)) {
      moved = read(file, block, count > sizeof block ? sizeof block : (size_t)count);
      if (moved > 0 && !write_all(WORKER_OUT, block, (size_t)moved)) _exit(0);
    }
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) refuse_errno();
    if (moved == 0) refuse("shrunk");
    count -= (uint64_t)moved;
  }
}

static void head_of(const char *kind, const char *path, const struct stat *found) {
  struct writer head = begin(PACKET_HEAD);
  put_text(&head, kind);
  put_text(&head, path);
  put_number(&head, S_ISDIR(found->st_mode) ? 0 : found->st_size);
  put_number(&head, found->st_mtime);
  answer_head(&head);
}

/* Argument: the most bytes of a file, or nothing. After the answer it waits for the first byte and the number of bytes (8 each). */
static void read_file(const struct fields *fields) {
  struct place place;
  struct stat found;
  uint8_t range[16];
  confined = false;
  walk(field_text(fields, PATH), true, &place);
  if (place.kind == 0) refuse("not_found");
  if (S_ISDIR(place.kind)) {
    int folder = enter(place.folder, place.name);
    if (folder < 0 || fstat(folder, &found) != 0) refuse_errno();
    const char *path = path_of(folder);
    require_permitted(path);
    head_of("directory", path, &found);
    await_input(range, sizeof range);
    write_tar(folder, strrchr(path, '/') + 1);
    return;
  }
  if (!S_ISREG(place.kind)) refuse("not_a_file");
  require_permitted(joined(place.folder, place.name));
  int file = openat(place.folder, place.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0 || fstat(file, &found) != 0) refuse_errno();
  if (!S_ISREG(found.st_mode)) refuse("not_a_file");
  const char *path = path_of(file);
  require_permitted(path);
  int64_t most = field_number(fields, ARGUMENT, -1);
  if (most >= 0 && found.st_size > most) refuse("too_large");
  head_of("file", path, &found);
  await_input(range, sizeof range);
  copy_out(file, get_u64(range), get_u64(range + 8));
}

/* --- write --- */

static bool input_was_whole(void) {
  char word;
  for (;;) {
    ssize_t got = recv(WORKER_CONTROL, &word, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    if (word == PACKET_INPUT_ENDED) return true;
  }
}

static uint64_t copy_in(int file, int folder, const char *unfinished, uint64_t most) {
  static uint8_t block[COPY_BYTES];
  uint64_t size = 0;
  const char *reason = NULL;
  int problem = 0;
  for (;;) {
    ssize_t got = read(WORKER_IN, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += (uint64_t)got;
    if (size > most) reason = "too_large";
    else if (!write_all(file, block, (size_t)got)) problem = errno;
    if (reason != NULL || problem != 0) break;
  }
  if (reason == NULL && problem == 0 && !input_was_whole()) reason = "broken";
  if (reason == NULL && problem == 0) return size;
  unlinkat(folder, unfinished, 0);
  errno = problem;
  if (reason != NULL) refuse(reason);
  refuse_errno();
}

/* Puts the file in its place: over another file if that is wanted, else only if nothing is there. */
static void publish(int folder, const char *unfinished, const char *name, bool replace) {
  int failed = replace ? renameat(folder, unfinished, folder, name) : linkat(folder, unfinished, folder, name, 0);
  int problem = errno;
  if (!replace || failed != 0) unlinkat(folder, unfinished, 0);
  errno = problem;
  if (failed != 0) refuse_errno();
}

/* Makes the folders that are missing above the place, and goes into the last of them. */
static void make_missing(struct place *place) {
  static char path[PATH_BYTES_MAX + NAME_MAX + 2];
  if (*place->missing == 0) return;
  const char *last = strrchr(place->missing, '/');
  const char *name = last == NULL ? place->missing : last + 1;
  if (strlen(name) > NAME_MAX) refuse("invalid_path");
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) refuse("not_found");
  snprintf(path, sizeof path, "%s%s%.*s", place->name, last == NULL ? "" : "/", last == NULL ? 0 : (int)(last - place->missing), place->missing);
  place->folder = make_folders(place->folder, path);
  strcpy(place->name, name);
  place->kind = kind_of(place->folder, place->name);
}

/* Arguments: 1 to create missing folders, 1 to replace a file, the name of the unfinished file, the most bytes, the prefix and the age as for `list`, 1 to let everybody run it. */
static void write_file(const struct fields *fields) {
  struct place place;
  struct stat found;
  bool parents = field_number(fields, ARGUMENT, 0) == 1, replace = field_number(fields, ARGUMENT + 1, 0) == 1;
  const char *unfinished = field_text(fields, ARGUMENT + 2);
  walk(field_text(fields, PATH), true, &place);
  if (*place.name == 0 || S_ISDIR(place.kind)) refuse("is_a_directory");
  if (*place.missing != 0 && !parents) refuse("not_found");
  make_missing(&place);
  if (S_ISREG(place.kind) && !replace) refuse("exists");
  if (S_ISDIR(place.kind)) refuse("is_a_directory");
  if (place.kind != 0 && !S_ISREG(place.kind)) refuse("not_a_file");
  bool created = place.kind == 0;
  mode_t mode = 0644;
  if (!created && fstatat(place.folder, place.name, &found, AT_SYMLINK_NOFOLLOW) == 0) mode = found.st_mode & 0777;
  if (field_number(fields, ARGUMENT + 6, 0) == 1) mode |= 0111;
  sweep(place.folder, field_text(fields, ARGUMENT + 4), field_number(fields, ARGUMENT + 5, 3600));
  int file = openat(place.folder, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) refuse_errno();
  struct writer head = begin(PACKET_HEAD);
  put_text(&head, "ready");
  answer_head(&head);
  uint64_t size = copy_in(file, place.folder, unfinished, (uint64_t)field_number(fields, ARGUMENT + 3, INT64_MAX));
  if (fchmod(file, mode) != 0 || fsync(file) != 0) {
    int problem = errno;
    unlinkat(place.folder, unfinished, 0);
    errno = problem;
    refuse_errno();
  }
  publish(place.folder, unfinished, place.name, replace);
  int folder = openat(place.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) fsync(folder);
  struct writer result = begin(PACKET_RESULT);
  put_text(&result, "ok");
  put_text(&result, joined(place.folder, place.name));
  put_number(&result, created);
  put_number(&result, (int64_t)size);
  finish(&result);
}

/* --- folders, names --- */

/* Argument: 1 to create missing folders above it. */
static void make_directory(const struct fields *fields) {
  struct place place;
  walk(field_text(fields, PATH), true, &place);
  if (place.kind != 0 && !S_ISDIR(place.kind)) refuse("exists");
  bool created = place.kind == 0;
  int folder = place.folder;
  if (created) {
    if (*place.missing != 0 && field_number(fields, ARGUMENT, 0) != 1) refuse("not_found");
    static char path[PATH_BYTES_MAX + NAME_MAX + 2];
    snprintf(path, sizeof path, "%s/%s", place.name, place.missing);
    folder = make_folders(place.folder, path);
  }
  struct writer result = begin(PACKET_RESULT);
  put_text(&result, "ok");
  put_text(&result, created ? path_of(folder) : joined(folder, place.name));
  put_number(&result, created);
  finish(&result);
}

static void rename_to_nothing(const struct place *from, const struct place *to) {
#ifdef SYS_renameat2
  if (syscall(SYS_renameat2, from->folder, from->name, to->folder, to->name, RENAME_NOREPLACE_FLAG) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) refuse_errno();
#endif
  /* A file system, or a kernel, that can't do it at once. */
  if (S_ISDIR(from->kind)) {
    if (mkdirat(to->folder, to->name, 0700) != 0) refuse_errno();
    if (renameat(from->folder, from->name, to->folder, to->name) == 0) return;
    int problem = errno;
    unlinkat(to->folder, to->name, AT_REMOVEDIR);
    errno = problem;
    refuse_errno();
  }
  if (linkat(from->folder, from->name, to->folder, to->name, 0) != 0) refuse_errno();
  if (unlinkat(from->folder, from->name, 0) != 0) refuse_errno();
}

/* Arguments: the other path, above which missing folders are created, and 1 if a file may replace a file. */
static void move(const struct fields *fields) {
  static struct place from, to;
  walk(field_text(fields, PATH), false, &from);
  walk(field_text(fields, ARGUMENT), false, &to);
  if (*from.name == 0) refuse("volume_root");
  if (from.kind == 0 || *from.missing != 0) refuse("not_found");
  bool replaces = field_number(fields, ARGUMENT + 1, 0) == 1 && S_ISREG(from.kind) && S_ISREG(to.kind);
  if (*to.name == 0 || (to.kind != 0 && !replaces)) refuse("exists");
  char old[PATH_MAX + NAME_MAX + 2];
  strcpy(old, joined(from.folder, from.name));
  /* A folder that went into itself would leave the folders that were made for it. */
  const char *goal = joined(to.folder, to.name);
  if (*to.missing != 0 && strncmp(goal, old, strlen(old)) == 0 && (goal[strlen(old)] == '/' || goal[strlen(old)] == 0)) refuse("invalid_path");
  make_missing(&to);
  if (!replaces) rename_to_nothing(&from, &to);
  else if (renameat(from.folder, from.name, to.folder, to.name) != 0) refuse_errno();
  struct writer result = begin(PACKET_RESULT);
  put_text(&result, "ok");
  put_text(&result, old);
  put_text(&result, joined(to.folder, to.name));
  finish(&result);
}

/* Argument: the beginning of names that nothing has. */
static void remove_path(const struct fields *fields) {
  struct place place;
  walk(field_text(fields, PATH), false, &place);
  if (*place.name == 0) refuse("volume_root");
  if (place.kind == 0) refuse("not_found");
  char path[PATH_MAX + NAME_MAX + 2];
  strcpy(path, joined(place.folder, place.name));
  if (S_ISDIR(place.kind)) remove_folder(&place, field_text(fields, ARGUMENT));
  else if (unlinkat(place.folder, place.name, 0) != 0) refuse_errno();
  struct writer result = begin(PACKET_RESULT);
  put_text(&result, "ok");
  put_text(&result, path);
  finish(&result);
}

static void done(void) {
  struct writer result = begin(PACKET_RESULT);
  put_text(&result, "ok");
  finish(&result);
}

void run_file_call(const struct fields *fields) {
  const char *call = field_text(fields, CALL);
  bool writes = strcmp(call, "write") == 0;
  hide();
  umask(022);
  unblock_signals();
  /* A call ends with the channel, but for one that removes its unfinished file first. */
  if (!writes) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) _exit(0);
  if (strcmp(call, "measure") == 0) measure(fields);
  open_volume(field_text(fields, VOLUME));
  if (strcmp(call, "list") == 0) list(fields);
  else if (strcmp(call, "read") == 0) read_file(fields);
  else if (writes) write_file(fields);
  else if (strcmp(call, "mkdir") == 0) make_directory(fields);
  else if (strcmp(call, "move") == 0) move(fields);
  else if (strcmp(call, "remove") == 0) remove_path(fields);
  else refuse("unknown_call");
  done();
}
