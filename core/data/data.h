/* SPDX-License-Identifier: MIT */
/*
** What the files here know of each other.
*/
#ifndef RIDGE_DATA_DATA_H
#define RIDGE_DATA_DATA_H

#include "ridge/data.h"

/* Has a mapped file still so many bytes?  RG_EFORMAT, RG_EIO: how it goes on behind "row 3 is". */
rg_status rg_map_check(int32_t file, int64_t bytes) RG_CHECK;

#endif
