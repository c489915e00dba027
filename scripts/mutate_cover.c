/* SPDX-License-Identifier: MIT */
/*
** Which code of an image was run: in the copy of the tree that scripts/mutate counts in, every
** program and library is built with -fsanitize-coverage=trace-pc and holds this file.  Each basic
** block calls the function below once it is entered, and the byte of its return address is set in
** the file $RIDGE_COVER.NAME, where NAME is the image's.  The file is mapped and shared: processes
** that fork, are killed or run at the same time lose nothing.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNTOLD __attribute__((no_sanitize_coverage, visibility("hidden")))

#ifdef __cplusplus
extern "C" {
#endif

UNTOLD void __sanitizer_cov_trace_pc(void);

static unsigned char *seen;
static uintptr_t first, length;
static char path[4096];

/* The image that holds this file: where it was loaded, up to the end of its code. */
UNTOLD static int find(struct dl_phdr_info *info, size_t size, void *unused)
{
  uintptr_t here = (uintptr_t)&find, end = 0;

  (void)size, (void)unused;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];

    if (part->p_type == PT_LOAD && (part->p_flags & PF_X) && part->p_vaddr + part->p_memsz > end) {
      end = part->p_vaddr + part->p_memsz;
    }
  }
  if (here < info->dlpi_addr || here >= info->dlpi_addr + end) {
    return 0;
  }
  const char *name = info->dlpi_name;
  char self[4096];

  if (name == NULL || name[0] == '\0') {
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    name = self;
  }
  const char *slash = strrchr(name, '/');

  snprintf(path, sizeof(path), "%s.%s", getenv("RIDGE_COVER"), slash != NULL ? slash + 1 : name);
  first = info->dlpi_addr;
  length = end;
  return 1;
}

UNTOLD __attribute__((constructor)) static void begin(void)
{
  if (getenv("RIDGE_COVER") == NULL || dl_iterate_phdr(find, NULL) != 1) {
    return;
  }
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

  if (file < 0) {
    return; /* a test that runs as another user */
  }
  if (ftruncate(file, (off_t)length) == 0) {
    void *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    seen = map == MAP_FAILED ? NULL : (unsigned char *)map;
  }
  close(file);
}

UNTOLD void __sanitizer_cov_trace_pc(void)
{
  if (seen != NULL) {
    uintptr_t at = (uintptr_t)__builtin_return_address(0) - first;

    if (at < length) {
      seen[at] = 1;
    }
  }
}

#ifdef __cplusplus
}
#endif
