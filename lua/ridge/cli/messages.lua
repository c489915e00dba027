-- SPDX-License-Identifier: MIT
--- What `ridge doctor` says of messages between processes: is there a library for MPI, does it
--- load, is there a launcher, and what to install where one of them is missing.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local process = require 'ridge.process'

local M = {}

local SIZE = 4096

pcall(ffi.cdef, [[
int MPI_Get_library_version(char *text, int *length);
int rg_mpi_transport(const void *host, void *out);
]])

-- The version of the MPI that the library was linked to: "Open MPI v4.1.4".
local function version(library)
  local text, length = ffi.new('char[?]', 2 * SIZE), ffi.new 'int[1]' -- MPI's own most is less
  local ok, code = pcall(function() return library.MPI_Get_library_version(text, length) end)
  if not ok or code ~= 0 then return 'an MPI that does not say its version' end
  return ffi.string(text, length[0]):match '^[^,\n%z]*'
end

local function is_there(path)
  local file = io.open(path, 'rb')
  if file then file:close() end
  return file ~= nil
end

-- What is to be done about a library that is not there, or does not load.
local function advice(path, why)
  if (os.getenv 'RIDGE_MPI' or '') ~= '' then return { 'RIDGE_MPI names it' } end
  if why and not why:find 'cannot open shared object file' then
    return { ('ridge launch needs it: make %s again'):format(path:match '[^/]*$') }
  elseif why then
    return { "ridge launch needs it: install Debian's openmpi-bin" }
  end
  return { 'ridge launch needs it: install the package ridge-mpi, or Open MPI (scripts/deps mpi)',
    'and make ridge again' }
end

--- What is known of messages between processes, in the order in which it is printed.
---@return string[] lines
function M.lines()
  local buffer = ffi.new('char[?]', SIZE)
  C.rg_group_path(buffer, SIZE)
  local path = ffi.string(buffer)
  -- a name without a folder is looked for where the system has its libraries
  if path:find('/', 1, true) and not is_there(path) then
    return { 'none: there is no ' .. path, unpack(advice(path)) }
  end
  local ok, library = pcall(ffi.load, path)
  if not ok then
    local why = tostring(library):gsub('\n.*', '')
    return { path .. ' does not load', why, unpack(advice(path, why)) }
  elseif not pcall(function() return library.rg_mpi_transport end) then
    return { path .. ' has no function rg_mpi_transport', unpack(advice(path, 'another library')) }
  end
  local mpirun = process.find 'mpirun'
  return { ('%s, by %s'):format(version(library), path), mpirun and 'mpirun is ' .. mpirun
    or "there is no mpirun on the PATH, so no ridge launch: install Debian's openmpi-bin" }
end

return M
