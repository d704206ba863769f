#include "supervisor.h"
#include <dirent.h>

/*
 * Removes a folder with all that is in it, however deep, with few descriptors: a folder within a folder is moved up into the one that is
 * removed, and emptied from there.
 */

#define PASSES_MAX 1000

struct removal {
  int top;
  const char *unused;
  uint64_t moved;
  uint64_t progress;
};

static DIR *open_entries(int folder, const char *name) {
  int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 ? NULL : fdopendir(fd);
}

static bool is_dots(const char *name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool removed(struct removal *removal, int folder, const char *name, int flags) {
  if (unlinkat(folder, name, flags) != 0) return errno == ENOENT;
  removal->progress++;
  return true;
}

/* Empties a folder of the first level and removes it: its files go, its folders move up. */
static void flatten(struct removal *removal, const char *name) {
  DIR *entries = open_entries(removal->top, name);
  if (entries == NULL) {
    removed(removal, removal->top, name, AT_REMOVEDIR);
    return;
  }
  if (!is_in_volume(path_of(dirfd(entries)))) refuse("outside_volume");
  struct dirent *entry;
  while ((entry = readdir(entries)) != NULL) {
    if (is_dots(entry->d_name) || removed(removal, dirfd(entries), entry->d_name, 0)) continue;
    if (errno != EISDIR && errno != EPERM) continue;
    if (removed(removal, dirfd(entries), entry->d_name, AT_REMOVEDIR)) continue;
    char other[NAME_MAX + 1];
    snprintf(other, sizeof other, "%.200s%llu", removal->unused, (unsigned long long)removal->moved++);
    if (renameat(dirfd(entries), entry->d_name, removal->top, other) == 0) removal->progress++;
  }
  closedir(entries);
  removed(removal, removal->top, name, AT_REMOVEDIR);
}

/* Goes once through what is in the folder. Returns whether anything was there. */
static bool pass(struct removal *removal) {
  DIR *entries = open_entries(removal->top, ".");
  if (entries == NULL) refuse_errno();
  bool found = false;
  struct dirent *entry;
  while ((entry = readdir(entries)) != NULL) {
    if (is_dots(entry->d_name)) continue;
    found = true;
    if (!removed(removal, removal->top, entry->d_name, 0)) flatten(removal, entry->d_name);
  }
  closedir(entries);
  return found;
}

void remove_folder(struct place *place, const char *unused) {
  struct removal removal = {enter(place->folder, place->name), unused, 0, 0};
  if (removal.top < 0) refuse_errno();
  require_inside(removal.top, place->name);
  /* It ends when nothing more can be removed, or when somebody fills the folder as fast as it is emptied. */
  uint64_t before = 0;
  for (int passes = 0; passes < PASSES_MAX && pass(&removal) && removal.progress > before; passes++) before = removal.progress;
  if (unlinkat(place->folder, place->name, AT_REMOVEDIR) == 0) return;
  if (errno == ENOTEMPTY || errno == EEXIST) refuse("not_permitted");
  refuse_errno();
}
