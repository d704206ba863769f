#include "supervisor.h"

/*
 * The rule of confinement. Every folder of a path is entered by its descriptor, and no link is followed but by reading it, so that it does not
 * matter what is renamed or replaced meanwhile. A folder that was entered can't leave the volume any more, since nothing can be renamed out of
 * a mount; so it is enough to ask the kernel at the end where the folder is. (openat2 with RESOLVE_BENEATH would refuse absolute links into the
 * volume, which agents have; and older kernels and gVisor lack it.)
 */

const char *volume_path;
int volume_folder = -1;
bool confined = true;

static int folder_flags(void) {
  return O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
}

const char *path_of(int fd) {
  static char path[PATH_MAX];
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0 || length == (ssize_t)sizeof path - 1) refuse("invalid_path");
  path[length] = 0;
  return path;
}

bool is_in_volume(const char *path) {
  size_t length = strlen(volume_path);
  return strncmp(path, volume_path, length) == 0 && (path[length] == 0 || path[length] == '/');
}

void open_volume(const char *path) {
  volume_path = path;
  volume_folder = open(path, folder_flags());
  if (volume_folder < 0 || strcmp(path_of(volume_folder), path) != 0) {
    confined = false;
    refuse("no_volume");
  }
}

mode_t kind_of(int folder, const char *name) {
  struct stat found;
  if (*name == 0) return S_IFDIR;
  return fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_mode & S_IFMT : 0;
}

int enter(int folder, const char *name) {
  return openat(folder, *name == 0 ? "." : name, folder_flags());
}

/* Refuses with the reason, or as outside of the volume if that is where the walk has come: nothing is said of what is there. */
static void refuse_at(int folder, const char *reason) {
  refuse(confined && !is_in_volume(path_of(folder)) ? "outside_volume" : reason);
}

static void move_to(int *folder, int next, const char *reason) {
  if (next < 0) refuse_at(*folder, errno == EACCES ? "not_permitted" : reason);
  close(*folder);
  *folder = next;
}

/* Puts what the link says before the rest of the path. */
static void follow(int *folder, const char *name, char **rest, char *buffer, int *links) {
  static char goal[PATH_MAX];
  ssize_t length = readlinkat(*folder, name, goal, sizeof goal);
  if (length <= 0 || length == (ssize_t)sizeof goal || ++*links > LINKS_MAX) refuse_at(*folder, "not_found");
  size_t left = strlen(*rest);
  if ((size_t)length + 1 + left >= PATH_BYTES_MAX) refuse_at(*folder, "invalid_path");
  memmove(buffer + length + 1, *rest, left + 1);
  memcpy(buffer, goal, (size_t)length);
  buffer[length] = '/';
  *rest = buffer;
  if (goal[0] == '/') move_to(folder, open("/", folder_flags()), "not_found");
}

/* Finds the name of a folder that was reached without one, such as by `..`. */
static void name_folder(struct place *place) {
  static char own[PATH_MAX];
  strcpy(own, path_of(place->folder));
  if (strcmp(own, "/") == 0 || strcmp(own, volume_path) == 0) return;
  struct stat wanted, found;
  const char *name = strrchr(own, '/') + 1;
  int parent = openat(place->folder, "..", folder_flags());
  if (parent < 0 || strlen(name) > NAME_MAX || fstat(place->folder, &wanted) != 0 ||
      fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) != 0 || wanted.st_ino != found.st_ino || wanted.st_dev != found.st_dev)
    refuse_at(place->folder, "not_found");
  strcpy(place->name, name);
  close(place->folder);
  place->folder = parent;
}

static void confine(struct place *place) {
  static char path[PATH_MAX + NAME_MAX + 2];
  const char *folder = path_of(place->folder);
  snprintf(path, sizeof path, "%s%s%s", strcmp(folder, "/") == 0 ? "" : folder, *place->name == 0 ? "" : "/", place->name);
  if (strcmp(path, volume_path) == 0) {
    close(place->folder);
    place->folder = enter(volume_folder, "");
    if (place->folder < 0) refuse("no_volume");
    place->name[0] = 0;
    return;
  }
  if (!is_in_volume(path)) {
    if (confined) refuse("outside_volume");
  }
}

void require_inside(int folder, const char *name) {
  const char *path = path_of(folder);
  if (!is_in_volume(path) || (*name == 0 && strcmp(path, volume_path) == 0)) refuse("outside_volume");
}

void walk(const char *path, bool follow_last, struct place *place) {
  static char buffers[2][PATH_BYTES_MAX];
  static int turn;
  char *buffer = buffers[turn++ % 2], *rest = buffer;
  int links = 0;
  if (strlen(path) >= PATH_BYTES_MAX) refuse("invalid_path");
  strcpy(buffer, path);
  place->name[0] = place->missing[0] = 0;
  place->folder = *path == '/' ? open("/", folder_flags()) : enter(volume_folder, "");
  if (place->folder < 0) refuse("not_found");
  for (;;) {
    while (*rest == '/') rest++;
    if (*rest == 0) break;
    size_t length = strcspn(rest, "/");
    char name[NAME_MAX + 1];
    if (length > NAME_MAX) refuse_at(place->folder, "invalid_path");
    memcpy(name, rest, length);
    name[length] = 0;
    rest += length;
    while (*rest == '/') rest++;
    if (strcmp(name, ".") == 0) continue;
    if (strcmp(name, "..") == 0) {
      move_to(&place->folder, openat(place->folder, "..", folder_flags()), "not_found");
      continue;
    }
    mode_t kind = kind_of(place->folder, name);
    if (S_ISLNK(kind) && (*rest != 0 || follow_last)) {
      follow(&place->folder, name, &rest, buffer, &links);
      continue;
    }
    if (*rest == 0 || kind == 0) {
      if (kind == 0 && errno == EACCES) refuse_at(place->folder, "not_permitted");
      strcpy(place->name, name);
      strcpy(place->missing, rest);
      break;
    }
    if (!S_ISDIR(kind)) refuse_at(place->folder, "not_a_directory");
    move_to(&place->folder, enter(place->folder, name), "not_found");
  }
  if (*place->name == 0) name_folder(place);
  confine(place);
  place->kind = kind_of(place->folder, place->name);
}

int make_folders(int folder, const char *path) {
  char name[NAME_MAX + 1];
  folder = enter(folder, "");
  for (;;) {
    while (*path == '/') path++;
    if (*path == 0) return folder;
    size_t length = strcspn(path, "/");
    if (length > NAME_MAX) refuse("invalid_path");
    memcpy(name, path, length);
    name[length] = 0;
    path += length;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) refuse("not_found");
    if (mkdirat(folder, name, 0777) != 0 && errno != EEXIST) refuse_errno();
    move_to(&folder, enter(folder, name), "not_a_directory");
    require_inside(folder, name);
  }
}

void require_permitted(const char *path) {
  static const char *const closed[] = {"/proc", "/sys", "/dev"};
  for (int i = 0; i < 3; i++) {
    size_t length = strlen(closed[i]);
    if (strncmp(path, closed[i], length) == 0 && (path[length] == 0 || path[length] == '/')) refuse("not_permitted");
  }
}
