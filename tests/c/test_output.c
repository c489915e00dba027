/* SPDX-License-Identifier: MIT */
/*
** Writing a file: what is there under its name in the end, and that no descriptor and no name
** beside it is left, whatever the target is and wherever it ended.
*/
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ridge/base.h"
#include "tap.h"

static char folder[] = "/tmp/ridge-output-XXXXXX";

static int32_t entries(const char *where)
{
  DIR *dir = opendir(where);
  int32_t n = 0;

  while (dir != NULL && readdir(dir) != NULL) {
    n++;
  }
  if (dir != NULL) {
    (void)closedir(dir);
  }
  return n;
}

static int32_t descriptors(void)
{
  return entries("/proc/self/fd");
}

static void put(const char *path, const char *text, mode_t mode)
{
  FILE *file = fopen(path, "w");

  if (file == NULL) {
    tap_bail(path);
  }
  fputs(text, file);
  fclose(file);
  if (chmod(path, mode) != 0) {
    tap_bail(path);
  }
}

static bool holds(const char *path, const char *text)
{
  char read[64] = { 0 };
  FILE *file = fopen(path, "r");

  if (file == NULL) {
    return text == NULL;
  }
  read[fread(read, 1, sizeof(read) - 1, file)] = 0;
  fclose(file);
  return text != NULL && strcmp(read, text) == 0;
}

static mode_t mode_of(const char *path)
{
  struct stat facts = { 0 };

  return stat(path, &facts) == 0 ? facts.st_mode & 07777 : 0;
}

static ino_t number_of(const char *path)
{
  struct stat facts = { 0 };

  return stat(path, &facts) == 0 ? facts.st_ino : 0;
}

/* -- Files ------------------------------------------------------------------------------------ */

/* Written to the end, then given up; was: NULL, there is none.  One of other names stays the same
** file, which takes the text; else the name goes to another file. */
static void test_file(const char *path, const char *at, const char *was, mode_t mode, bool same)
{
  rg_output *output = NULL;
  const int32_t open_before = descriptors();
  const int32_t beside = entries(folder);
  const ino_t number = number_of(path);

  is_status(rg_output_new(path, &output), RG_OK, at);
  is_int(descriptors(), open_before + 1, "one descriptor is open");
  is_status(rg_output_write(output, "half", 4), RG_OK, "a part of it");
  ok(holds(path, was), "is not there yet");
  is_int(entries(folder), beside + (same && was != NULL), "nor has it a name");
  rg_output_release(output);
  ok(holds(path, was) && number_of(path) == number, "given up, it is as it was");
  is_int(descriptors(), open_before, "no descriptor is left");
  is_int(entries(folder), beside, "nor a name");
  is_status(rg_output_new(path, &output), RG_OK, "again");
  is_status(rg_output_write(output, "the ", 4), RG_OK, "a part");
  is_status(rg_output_write(output, NULL, 0), RG_OK, "of nothing");
  is_status(rg_output_write(output, NULL, 1), RG_EARG, "from nowhere");
  is_status(rg_output_write(output, "whole", -1), RG_EARG, "of less than nothing");
  is_status(rg_output_write(output, "whole", 5), RG_OK, "the rest");
  is_status(rg_output_finish(output), RG_OK, "to the end");
  ok(holds(path, "the whole"), "it is there, whole");
  is_int(mode_of(path), mode, "with its mode");
  ok(same || was == NULL || number_of(path) != number, "another file");
  ok(!same || was == NULL || number_of(path) == number, "or the same");
  is_int(descriptors(), open_before, "no descriptor is left");
  is_int(entries(folder), beside + (was == NULL), "nor a name");
}

static void test_files(void)
{
  char path[PATH_MAX];
  char other[PATH_MAX];
  char link[PATH_MAX];

  snprintf(path, sizeof(path), "%s/file", folder);
  snprintf(other, sizeof(other), "%s/other", folder);
  snprintf(link, sizeof(link), "%s/link", folder);
  (void)umask(027);
  test_file(path, "a new file", NULL, 0640, false);
  put(path, "it was longer than what comes", 0604);
  test_file(path, "one that is there", "it was longer than what comes", 0604, false);
  put(path, "it was longer than what comes", 0600);
  if (linkat(AT_FDCWD, path, AT_FDCWD, other, 0) != 0) {
    tap_bail("no second name");
  }
  test_file(path, "one of two names", "it was longer than what comes", 0600, true);
  ok(holds(other, "the whole"), "which both show it");
  (void)unlink(other);
  if (symlink("file", link) != 0) {
    tap_bail("no link");
  }
  test_file(link, "a link to it", "the whole", 0600, false);
  (void)unlink(path);
  test_file(link, "a link to nowhere", NULL, 0640, false);
  ok(holds(path, "the whole"), "makes what it leads to");
  (void)unlink(link);
  (void)unlink(path);
  if (chdir(folder) != 0) {
    tap_bail("no folder");
  }
  test_file("bare", "a bare name", NULL, 0640, false);
  (void)unlink("bare");
}

/* Without memory to take the text a file of two names stays as it was, and so does descriptor 0. */
static void test_no_memory(void)
{
  char path[PATH_MAX];
  char other[PATH_MAX];
  rg_output *output = NULL;
  int32_t before;

  snprintf(path, sizeof(path), "%s/file", folder);
  snprintf(other, sizeof(other), "%s/other", folder);
  put(path, "as it was", 0600);
  if (linkat(AT_FDCWD, path, AT_FDCWD, other, 0) != 0) {
    tap_bail("no second name");
  }
  before = descriptors();
  is_status(rg_output_new(path, &output), RG_OK, "a file of two names");
  is_status(rg_output_write(output, "another text", 12), RG_OK, "its text");
  rg_alloc_fail_at(1);
  is_status(rg_output_finish(output), RG_ENOMEM, "no memory to take it");
  rg_alloc_fail_at(0);
  is_int(descriptors(), before, "as many are open as before");
  ok(holds(other, "as it was"), "and it is as it was");
  (void)unlink(path);
  (void)unlink(other);
}

/* Where nobody has descriptor 0, a file gets it. */
static void test_first_descriptor(void)
{
  const int kept = dup(0);
  char path[PATH_MAX];
  rg_output *output = NULL;

  snprintf(path, sizeof(path), "%s/zero", folder);
  (void)close(0);
  is_status(rg_output_new(path, &output), RG_OK, "a file on descriptor 0");
  ok(fcntl(0, F_GETFD) >= 0, "which is open");
  rg_output_release(output);
  ok(fcntl(0, F_GETFD) < 0, "given up, it is closed");
  is_status(rg_output_new(path, &output), RG_OK, "again");
  is_status(rg_output_write(output, "zero", 4), RG_OK, "written");
  is_status(rg_output_finish(output), RG_OK, "to the end");
  ok(fcntl(0, F_GETFD) < 0, "it is closed");
  ok(holds(path, "zero"), "and there");
  (void)unlink(path);
  put(path, "another", 0600);
  errno = EINTR; /* of another call, long ago */
  is_status(rg_output_new("/dev/null", &output), RG_OK, "a device on it");
  is_status(rg_output_finish(output), RG_OK, "ends");
  ok(fcntl(0, F_GETFD) < 0, "and is closed");
  (void)unlink(path);
  if (kept >= 0) {
    (void)dup2(kept, 0);
    (void)close(kept);
  }
}

/* -- What is no file ---------------------------------------------------------------- */

static void test_straight(void)
{
  const int32_t before = descriptors();
  char path[PATH_MAX];
  char text[16] = { 0 };
  rg_output *output = NULL;
  int ends[2];

  is_status(rg_output_new("/dev/null", &output), RG_OK, "a device");
  is_status(rg_output_write(output, "nothing", 7), RG_OK, "takes all");
  is_status(rg_output_finish(output), RG_OK, "to the end");
  is_status(rg_output_new("/dev/full", &output), RG_OK, "one that is full");
  is_status(rg_output_write(output, "nothing", 7), RG_EIO, "takes none");
  rg_output_release(output);
  is_int(descriptors(), before, "none is left open");
  if (pipe(ends) != 0) {
    tap_bail("no pipe");
  }
  snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[1]);
  is_status(rg_output_new(path, &output), RG_OK, "an open descriptor");
  is_int(descriptors(), before + 3, "is open twice");
  is_status(rg_output_write(output, "through", 7), RG_OK, "is written");
  is_int(read(ends[0], text, sizeof(text) - 1), 7, "at once");
  ok(strcmp(text, "through") == 0, "as it is");
  is_status(rg_output_finish(output), RG_OK, "to the end");
  is_int(descriptors(), before + 2, "it stays open itself");
  is_status(rg_output_new(path, &output), RG_OK, "again");
  rg_output_release(output);
  is_int(descriptors(), before + 2, "given up, too");
  (void)close(ends[0]);
  (void)close(ends[1]);
  is_status(rg_output_new(path, &output), RG_EIO, "one that is not open");
  is_status(rg_output_new("/proc/self/fd/1x", &output), RG_EIO, "or none");
  is_status(rg_output_new("/proc/self/fd/", &output), RG_EIO, "the folder of them");
  is_status(rg_output_new("/", &output), RG_EIO, "any folder");
  is_int(descriptors(), before, "none is left open");
}

/* A file that is open is written on from where it stands, and keeps what is behind. */
static void test_goes_on(void)
{
  char file[PATH_MAX];
  char path[64];
  rg_output *output = NULL;
  int fd;

  snprintf(file, sizeof(file), "%s/open", folder);
  put(file, "0123456789", 0600);
  fd = open(file, O_RDWR);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  is_int(lseek(fd, 4, SEEK_SET), 4, "a file that is open, behind its fourth byte");
  is_status(rg_output_new(path, &output), RG_OK, "is written to");
  is_status(rg_output_write(output, "ab", 2), RG_OK, "two bytes");
  is_status(rg_output_finish(output), RG_OK, "to the end");
  is_int(lseek(fd, 0, SEEK_CUR), 6, "it stands behind them");
  (void)close(fd);
  ok(holds(file, "0123ab6789"), "which is all that has changed");
  (void)unlink(file);
}

/* -- What fails --------------------------------------------------------------------- */

static void test_refused(void)
{
  const int32_t before = descriptors();
  const int32_t beside = entries(folder);
  char path[PATH_MAX + 8];
  char loop[PATH_MAX];
  rg_output *output = NULL;
  static const int lengths[] = { PATH_MAX - 1, PATH_MAX, PATH_MAX + 1 };

  is_status(rg_output_new(NULL, &output), RG_EARG, "no name");
  is_status(rg_output_new("", &output), RG_EARG, "an empty one");
  for (int i = 0; i < 3; i++) {
    memset(path, 'x', sizeof(path));
    memcpy(path, "/tmp/", 5);
    path[lengths[i]] = 0;
    is_status(rg_output_new(path, &output), RG_EIO, "one that is too long");
    ok(i == 0 || strstr(rg_error_message(), "File name too long") != NULL, "is called so");
  }
  snprintf(path, sizeof(path), "%s/none/file", folder);
  is_status(rg_output_new(path, &output), RG_EIO, "a folder that is not there");
  snprintf(path, sizeof(path), "%s/one", folder);
  snprintf(loop, sizeof(loop), "%s/two", folder);
  if (symlink("two", path) != 0 || symlink(path, loop) != 0) {
    tap_bail("no links");
  }
  is_status(rg_output_new(path, &output), RG_EIO, "links in a circle");
  (void)unlink(path);
  (void)unlink(loop);
  rg_alloc_fail_at(1);
  is_status(rg_output_new(path, &output), RG_ENOMEM, "no memory");
  rg_alloc_fail_at(0);
  is_status(rg_output_new(path, &output), RG_OK, "a file");
  rg_interrupt_set();
  is_status(rg_output_write(output, "x", 1), RG_EINTR, "is given up for Ctrl-C");
  rg_interrupt_clear();
  rg_output_release(output);
  rg_output_release(NULL);
  is_int(descriptors(), before, "no descriptor is left");
  is_int(entries(folder), beside, "nor a name");
}

/* A database of results is replaced by no page, picture or tensor that was given its name. */
static void test_databases(void)
{
  static const char text[64] = "SQLite format 3\0and pages";
  char path[PATH_MAX];
  char link[PATH_MAX];
  char kept[sizeof(text)] = { 0 };
  rg_output *output = NULL;
  FILE *file;

  snprintf(path, sizeof(path), "%s/results.db", folder);
  snprintf(link, sizeof(link), "%s/page.html", folder);
  file = fopen(path, "w");
  if (file == NULL || fwrite(text, 1, sizeof(text), file) != sizeof(text) || fclose(file) != 0 ||
      symlink("results.db", link) != 0) {
    tap_bail(path);
  }
  is_status(rg_output_new(path, &output), RG_EIO, "a database");
  ok(strstr(rg_error_message(), "it is a database") != NULL, "is called so");
  is_status(rg_output_new(link, &output), RG_EIO, "one behind a link");
  file = fopen(path, "r");
  ok(file != NULL && fread(kept, 1, sizeof(kept), file) == sizeof(kept) &&
         memcmp(kept, text, sizeof(kept)) == 0,
     "stays as it was");
  if (file != NULL) fclose(file);
  (void)unlink(link);
  for (int i = 0; i < 3; i++) { /* what only begins like one */
    static const char *const texts[] = { "", "SQLite", "SQLite format 3 is what this is about" };
    const int32_t before = descriptors();

    put(path, texts[i], 0644);
    is_status(rg_output_new(path, &output), RG_OK, "another file");
    is_status(rg_output_write(output, "new", 3), RG_OK, "is written");
    is_status(rg_output_finish(output), RG_OK, "as ever");
    ok(holds(path, "new"), "and replaced");
    is_int(descriptors(), before, "no descriptor is left");
  }
  (void)unlink(path);
}

/* Forty links are followed, one more is a circle. */
static void test_links(void)
{
  char name[PATH_MAX];
  char next[16];
  rg_output *output = NULL;

  for (int i = 0; i < 40; i++) {
    snprintf(name, sizeof(name), "%s/l%d", folder, i);
    snprintf(next, sizeof(next), "l%d", i + 1);
    if (symlink(next, name) != 0) {
      tap_bail("no links");
    }
  }
  snprintf(name, sizeof(name), "%s/l1", folder);
  is_status(rg_output_new(name, &output), RG_OK, "thirty-nine links");
  is_status(rg_output_finish(output), RG_OK, "are followed");
  snprintf(name, sizeof(name), "%s/l40", folder);
  ok(holds(name, ""), "to the end");
  snprintf(name, sizeof(name), "%s/l0", folder);
  is_status(rg_output_new(name, &output), RG_EIO, "forty are not");
  for (int i = 0; i <= 40; i++) {
    snprintf(name, sizeof(name), "%s/l%d", folder, i);
    (void)unlink(name);
  }
}

int main(void)
{
  if (mkdtemp(folder) == NULL) {
    tap_bail("no folder");
  }
  test_files();
  test_no_memory();
  test_first_descriptor();
  test_straight();
  test_goes_on();
  test_refused();
  test_databases();
  test_links();
  if (chdir("/") == 0) {
    is_int(rmdir(folder), 0, "nothing is left in the folder");
  }
  return done();
}
