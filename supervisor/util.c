#include "supervisor.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

void die(const char *what) {
  dprintf(2, "supervisor: %s: %s\n", what, strerror(errno));
  _exit(125);
}

bool write_all(int fd, const void *bytes, size_t length) {
  const char *at = bytes;
  while (length > 0) {
    ssize_t written = write(fd, at, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    length -= (size_t)written;
  }
  return true;
}

ssize_t read_all(int fd, void *bytes, size_t length) {
  size_t size = 0;
  while (size < length) {
    ssize_t got = read(fd, (char *)bytes + size, length - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    size += (size_t)got;
  }
  return (ssize_t)size;
}

void close_fd(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

void set_nonblocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void close_from(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0) return;
#endif
  /* An older kernel. */
  DIR *folder = opendir("/proc/self/fd");
  if (folder == NULL) {
    for (int fd = first; fd < 4096; fd++) close(fd);
    return;
  }
  struct dirent *entry;
  while ((entry = readdir(folder)) != NULL) {
    int fd = atoi(entry->d_name);
    if (fd >= first && fd != dirfd(folder)) close(fd);
  }
  closedir(folder);
}

void place_descriptors(const int *from, int count) {
  int high[16];
  /* They are copied out of the way first, since one may stand where another belongs. */
  for (int i = 0; i < count; i++) high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, count);
  for (int i = 0; i < count; i++) {
    if (from[i] < 0) close(i);
    else if (high[i] < 0 || dup2(high[i], i) < 0) _exit(125);
  }
  fcntl(WORKER_CONTROL, F_SETFD, FD_CLOEXEC);
  close_from(count);
}

void hide(void) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void unblock_signals(void) {
  for (int number = 1; number < 65; number++) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

int watch_children(void) {
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, NULL);
  int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) die("signalfd");
  return signals;
}

void execute(const char *path, char **argv, char **environment, const char *helper) {
  execve(path, argv, environment);
  if (errno != ENOEXEC) return;
  int count = 0;
  while (argv[count] != NULL) count++;
  char **words = calloc((size_t)count + 2, sizeof *words);
  if (words == NULL) return;
  words[0] = "/bin/sh";
  words[1] = (char *)path;
  for (int i = 1; i < count; i++) words[i + 1] = argv[i];
  execve(words[0], words, environment);
  if (errno != ENOENT || *helper == 0) return;
  words[0] = "sh";
  execve(helper, words, environment);
}

/* Says of a program that is there, and can't be run because something else is not there, what that is. Returns false if that can't be told. */
static bool report_missing_part(const char *name, const char *path) {
  char line[256];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t length = read_all(fd, line, sizeof line - 1);
  close(fd);
  if (length < 4) return false;
  line[length] = 0;
  if (memcmp(line, "\177ELF", 4) == 0) {
    dprintf(2, "%s: the loader that it was linked for is not there: link it statically, or for the C library of this image\n", name);
    return true;
  }
  if (line[0] != '#' || line[1] != '!') return false;
  char *interpreter = line + 2 + strspn(line + 2, " \t");
  char *end = interpreter + strcspn(interpreter, " \t\n");
  bool has_return = end > interpreter && end[-1] == '\r';
  end[has_return ? -1 : 0] = 0;
  if (has_return)
    dprintf(
      2, "%s: its first line ends in a carriage return, which counts as a part of its interpreter's name (%s): end its lines with line feeds alone\n",
      name, interpreter
    );
  else dprintf(2, "%s: the interpreter that its first line names is not there: %s\n", name, interpreter);
  return true;
}

void fail_to_run(const char *name, const char *path, int problem) {
  if (problem != ENOENT) dprintf(2, "%s: %s\n", name, strerror(problem));
  else if (*path == 0 || !report_missing_part(name, path)) dprintf(2, "%s: not found\n", name);
  _exit(problem == ENOENT ? 127 : 126);
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

uint64_t now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static int kill_unless(pid_t child, bool (*keep)(pid_t)) {
  if (child <= 0 || (keep != NULL && keep(child))) return 0;
  kill(child, SIGKILL);
  return 1;
}

/* Returns the parent of the process, as the fourth word of its line says; its name, which stands before it, may hold anything. */
static pid_t parent_of(const char *pid) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t length = read(fd, line, sizeof line - 1);
  close(fd);
  if (length <= 0) return -1;
  line[length] = 0;
  char *end = strrchr(line, ')');
  int parent;
  return end != NULL && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : -1;
}

int kill_children(bool (*keep)(pid_t)) {
  int found = 0;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE *list = fopen(path, "re");
  if (list != NULL) {
    int child;
    while (fscanf(list, "%d", &child) == 1) found += kill_unless(child, keep);
    fclose(list);
    return found;
  }
  /* A kernel that has no such list. */
  DIR *folder = opendir("/proc");
  if (folder == NULL) return 0;
  struct dirent *entry;
  while ((entry = readdir(folder)) != NULL)
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && parent_of(entry->d_name) == getpid())
      found += kill_unless(atoi(entry->d_name), keep);
  closedir(folder);
  return found;
}
