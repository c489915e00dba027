-- SPDX-License-Identifier: MIT
--- The core library: found once, its declarations taken from itself, its version checked.
--
-- In the `ridge` program the core is in the executable; under plain luajit it is the shared library
-- that holds this module too; from a source tree it is build/libridge.so.

local ffi = require 'ffi'
local library = require 'ridge.ffi.library'

local function tree_library()
  local source = debug.getinfo(1, 'S').source
  local root = source:match('^@(.*)lua/ridge/ffi/lib%.lua$')
  return root and (root .. 'build/libridge.so')
end

local function open()
  local host = package.loaded['ridge.host']
  if host and host.executable then return ffi.C end
  local path = host and host.library or os.getenv('RIDGE_LIBRARY') or tree_library()
  if not path then
    error('ridge: the core library is not found; set RIDGE_LIBRARY to the path of libridge.so', 0)
  end
  local opened, why = library.open(path)
  return opened or error('ridge: ' .. why, 0)
end

if not ffi.abi('gc64') then
  error('ridge: this LuaJIT is built without GC64 and cannot hold more than 1 GB', 0)
end

local C = open()

-- declarations are the process's: who loads this module again has them already
if not pcall(ffi.typeof, 'rg_tensor') then
  ffi.cdef 'const char *rg_cdef(void); int32_t rg_abi(void);'
  ffi.cdef(ffi.string(C.rg_cdef()))
end
if C.rg_abi() ~= C.RG_ABI then
  error(('ridge: the library speaks interface %d, its declarations %d'):format(
    C.rg_abi(), tonumber(C.RG_ABI)), 0)
end

return C
