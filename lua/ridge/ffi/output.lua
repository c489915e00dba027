-- SPDX-License-Identifier: MIT
--- Writing files: every file that ridge writes goes through here, so that all of it is there under
--- its name at the end, or what was there before (core/base/output.c).

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'

local M = {}

local Output = {}
Output.__index = Output

-- What goes wrong is about the file that the user named, whatever its links lead to.
local function check(self, status)
  if status == 0 then return end
  local reason = ffi.string(C.rg_error_message())
  local code = call.code(status)
  if code == 'EIO' then
    reason = ('%s: %s cannot be written: %s'):format(self.what, self.path,
      (reason:gsub('^.*: ', '', 1)))
  end
  blame.raise(reason, code, self.what)
end

--- Write text behind what was written before.
---@param text string
---@return table output itself
-- Raises EIO with the path and the system's reason.
function Output:write(text)
  check(self, C.rg_output_write(self.handle, text, #text))
  return self
end

--- Write bytes of memory.
---@param pointer cdata to at least n bytes
---@param n number of bytes
---@return table output itself
-- Raises EIO with the path and the system's reason.
function Output:write_bytes(pointer, n)
  check(self, C.rg_output_write(self.handle, pointer, n))
  return self
end

--- Write by a function of C.
---@param f cdata function, whose last argument is the rg_output
---@param ... any those before
---@return table output itself
-- Raises EIO with the path and the system's reason, and what else the function says.
function Output:by(f, ...)
  local given = { ... }
  given[select('#', ...) + 1] = self.handle
  check(self, f(unpack(given, 1, select('#', ...) + 1)))
  return self
end

--- Write a file: a regular one as a whole or not at all, with the mode, owner and links it has;
--- a device or a FIFO straight.
---@param path string
---@param what string who writes, for messages: 'save'
---@param fill string|fun(output: table) the text; or a function that calls output:write, and whose
---  error leaves the file as it was
-- Raises EARG for a path that is none, EIO with the path and the system's reason.
-- >> output.write('/tmp/x.csv', 'export', 'a,b\n')
function M.write(path, what, fill)
  if type(path) ~= 'string' or path == '' or path:find('%z') then
    blame.raise(('%s: a path is expected, got %s'):format(what, blame.show(path)), 'EARG', what)
  end
  local slot = ffi.new 'rg_output *[1]'
  local self = setmetatable({ path = path, what = what }, Output)
  check(self, C.rg_output_new(path, slot))
  self.handle = ffi.gc(slot[0], C.rg_output_release)
  local ok, err = pcall(type(fill) == 'string' and self.write or fill, self, fill)
  local handle = ffi.gc(self.handle, nil)
  self.handle = nil
  if not ok then
    C.rg_output_release(handle)
    error(err, 0)
  end
  check(self, C.rg_output_finish(handle))
end

return M
