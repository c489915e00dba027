/* SPDX-License-Identifier: MIT */
/*
** Bytes of files by read(2): a file that becomes shorter meanwhile gives an error and no signal.
*/
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "io/io.h"

rg_status rg_io_read(int32_t file, int64_t at, char *out, int64_t bytes)
{
  while (bytes > 0) {
    size_t most = bytes < (1 << 30) ? (size_t)bytes : (size_t)1 << 30;
    ssize_t n = pread(file, out, most, (off_t)at);

    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return rg_fail(RG_EIO, "elements cannot be read: %s", strerror(errno));
    }
    if (n == 0) {
      return rg_fail(RG_EFORMAT, "the file ends at byte %lld, %lld before its elements do",
                     (long long)at, (long long)bytes);
    }
    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "interrupted");
    }
    out += n;
    at += n;
    bytes -= n;
  }
  return RG_OK;
}
