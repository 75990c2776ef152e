/* Preloaded by scripts/torture to emulate another file system, host and launcher.
 *
 * TORTURE_FOLDER   the settings below that are about files only apply below this folder
 * TORTURE_HOST     this host's name and boot id; file locks have no effect on others, as on another node
 * TORTURE_FAIL     "CALL ERRNO SKIP COUNT PART": after SKIP calls whose path has PART in it COUNT of them fail; CALL is
 *                  open, read, write or sync
 * TORTURE_JOURNAL  a file that records writes, syncs, creations, renames and removals (torture_storage.py reads it)
 * TORTURE_STOP     the MPI rank that stops itself in MPI_Finalize
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int below_folder(const char* path) {
  const char* folder = getenv("TORTURE_FOLDER");
  return folder != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

/* Returns the absolute path of an open file; empty when it has none. */
static const char* path_of(int fd, char* path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, PATH_MAX - 1);
  path[n > 0 ? n : 0] = '\0';
  return path;
}

static const char* absolute(const char* name, char* path) {
  if (name[0] == '/') return name;
  if (getcwd(path, PATH_MAX) == NULL) return name;
  strncat(path, "/", PATH_MAX - strlen(path) - 1);
  return strncat(path, name, PATH_MAX - strlen(path) - 1);
}

/* Returns whether this call is to fail, and then sets errno. */
static int fails(const char* call, const char* path) {
  static atomic_int calls;
  const char* wanted = getenv("TORTURE_FAIL");
  char name[16], part[64];
  int error, skip, count;
  if (wanted == NULL || sscanf(wanted, "%15s %d %d %d %63s", name, &error, &skip, &count, part) != 5) return 0;
  if (strcmp(call, name) != 0 || !below_folder(path) || strstr(path, part) == NULL) return 0;
  const int number = atomic_fetch_add(&calls, 1);
  if (number < skip || number >= skip + count) return 0;
  errno = error;
  return 1;
}

static int fails_at(const char* call, int fd) {
  char path[PATH_MAX];
  return getenv("TORTURE_FAIL") != NULL && fails(call, path_of(fd, path));
}

/* One line of the journal; lines of several processes do not mix. */
static void note(char what, const char* path, const char* other, long long number) {
  const char* journal = getenv("TORTURE_JOURNAL");
  char line[2 * PATH_MAX + 64];
  if (journal == NULL || !below_folder(path)) return;
  const int kept = errno, fd = (int)syscall(SYS_openat, AT_FDCWD, journal, O_WRONLY | O_APPEND | O_CREAT, 0644);
  const int n = snprintf(line, sizeof line, "%c\t%s\t%s\t%lld\n", what, path, other, number);
  if (fd >= 0) {
    if (syscall(SYS_write, fd, line, (size_t)n) < 0) abort();
    syscall(SYS_close, fd);
  }
  errno = kept;
}

static long long size_of(int fd) {
  struct stat s;
  return fstat(fd, &s) == 0 ? (long long)s.st_size : 0;
}

static void note_write(int fd) {
  char path[PATH_MAX];
  if (getenv("TORTURE_JOURNAL") != NULL) note('W', path_of(fd, path), "", size_of(fd));
}

static int open_at(int folder, const char* name, int flags, mode_t mode) {
  char whole[PATH_MAX] = "", from[PATH_MAX];
  if (name[0] != '/' && folder != AT_FDCWD)
    snprintf(whole, sizeof whole, "%.2000s/%.2000s", path_of(folder, from), name);
  const char* path = whole[0] ? whole : absolute(name, from);
  if (fails("open", path)) return -1;
  struct stat s;
  const int made = (flags & O_CREAT) != 0 && lstat(path, &s) != 0;
  if (!made && (flags & O_TRUNC) != 0 && stat(path, &s) == 0) note('W', path, "", 0);
  const int fd = (int)syscall(SYS_openat, folder, name, flags | O_LARGEFILE, mode);
  if (fd >= 0 && made) note('C', path, "", 0);
  return fd;
}

#define OPEN(name)                                   \
  int name(const char* path, int flags, ...) {       \
    va_list more;                                    \
    va_start(more, flags);                           \
    const mode_t mode = va_arg(more, mode_t);        \
    va_end(more);                                    \
    return open_at(AT_FDCWD, path, flags, mode);     \
  }
#define OPENAT(name)                                     \
  int name(int folder, const char* path, int flags, ...) { \
    va_list more;                                        \
    va_start(more, flags);                               \
    const mode_t mode = va_arg(more, mode_t);            \
    va_end(more);                                        \
    return open_at(folder, path, flags, mode);           \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

FILE* fopen64(const char* path, const char* mode) {
  const char* boot = getenv("TORTURE_HOST") != NULL && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0
                         ? getenv("TORTURE_BOOT")
                         : NULL;
  return NEXT(fopen64)(boot != NULL ? boot : path, mode);
}

ssize_t read(int fd, void* to, size_t bytes) { return fails_at("read", fd) ? -1 : NEXT(read)(fd, to, bytes); }
ssize_t pread(int fd, void* to, size_t bytes, off_t at) {
  return fails_at("read", fd) ? -1 : NEXT(pread)(fd, to, bytes, at);
}
ssize_t pread64(int fd, void* to, size_t bytes, off64_t at) {
  return fails_at("read", fd) ? -1 : NEXT(pread64)(fd, to, bytes, at);
}

ssize_t write(int fd, const void* from, size_t bytes) {
  if (fails_at("write", fd)) return -1;
  note_write(fd);
  return NEXT(write)(fd, from, bytes);
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t at) {
  if (fails_at("write", fd)) return -1;
  note_write(fd);
  return NEXT(pwrite)(fd, from, bytes, at);
}
ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t at) {
  if (fails_at("write", fd)) return -1;
  note_write(fd);
  return NEXT(pwrite64)(fd, from, bytes, at);
}

static void note_sync(int fd) {
  char path[PATH_MAX];
  struct stat s;
  if (getenv("TORTURE_JOURNAL") != NULL && fstat(fd, &s) == 0)
    note(S_ISDIR(s.st_mode) ? 'D' : 'S', path_of(fd, path), "", (long long)s.st_size);
}
int fsync(int fd) {
  if (fails_at("sync", fd)) return -1;
  const int result = NEXT(fsync)(fd);
  if (result == 0) note_sync(fd);
  return result;
}
int fdatasync(int fd) {
  if (fails_at("sync", fd)) return -1;
  const int result = NEXT(fdatasync)(fd);
  if (result == 0) note_sync(fd);
  return result;
}

#define NOTED(call, what, path)                          \
  char a[PATH_MAX];                                      \
  const int result = call;                               \
  if (result == 0) note(what, absolute(path, a), "", 0); \
  return result

int rename(const char* from, const char* to) {
  char a[PATH_MAX], b[PATH_MAX];
  struct stat s;
  const int replaces = lstat(to, &s) == 0, result = NEXT(rename)(from, to);
  if (result == 0) note('R', absolute(from, a), absolute(to, b), replaces);
  return result;
}
int link(const char* from, const char* to) { NOTED(NEXT(link)(from, to), 'C', to); }
int mkdir(const char* path, mode_t mode) { NOTED(NEXT(mkdir)(path, mode), 'M', path); }
int unlink(const char* path) { NOTED(NEXT(unlink)(path), 'U', path); }
int rmdir(const char* path) { NOTED(NEXT(rmdir)(path), 'U', path); }

/* Another node's locks: they succeed here and are not seen there. */
static int elsewhere(int fd) {
  char path[PATH_MAX];
  return getenv("TORTURE_HOST") != NULL && below_folder(path_of(fd, path));
}
int flock(int fd, int how) { return elsewhere(fd) ? 0 : NEXT(flock)(fd, how); }

#define FCNTL(name)                                                                              \
  int name(int fd, int command, ...) {                                                           \
    va_list more;                                                                                \
    va_start(more, command);                                                                     \
    void* value = va_arg(more, void*);                                                           \
    va_end(more);                                                                                \
    const int asks = command == F_GETLK || command == F_OFD_GETLK;                               \
    const int locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW; \
    if ((asks || locks) && elsewhere(fd)) {                                                      \
      if (asks) ((struct flock*)value)->l_type = F_UNLCK;                                        \
      return 0;                                                                                  \
    }                                                                                            \
    return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, #name))(fd, command, value);                \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

int gethostname(char* name, size_t bytes) {
  const char* host = getenv("TORTURE_HOST");
  if (host == NULL) return NEXT(gethostname)(name, bytes);
  snprintf(name, bytes, "%s", host);
  return 0;
}
int uname(struct utsname* names) {
  const int result = NEXT(uname)(names);
  const char* host = getenv("TORTURE_HOST");
  if (result == 0 && host != NULL) snprintf(names->nodename, sizeof names->nodename, "%s", host);
  return result;
}

int MPI_Finalize(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *stops = getenv("TORTURE_STOP");
  if (rank != NULL && stops != NULL && strcmp(rank, stops) == 0) raise(SIGSTOP);
  return ((int (*)(void))dlsym(RTLD_NEXT, "MPI_Finalize"))();
}
