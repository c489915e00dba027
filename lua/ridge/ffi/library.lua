-- SPDX-License-Identifier: MIT
--- Shared libraries that stay open. Finalizers are functions of the library, and nothing says that
--- they run before it is unloaded, where both have become garbage: a module that is forgotten and
--- loaded again, as busted does between files, would end in a crash.

local ffi = require 'ffi'

-- LuaJIT's ffi is one of them: required again where package.loaded has forgotten it, it begins a
-- new table of C types (CTState), in which the numbers that all cdata carry mean others, or none.
package.preload.ffi = function() return ffi end

local M = {}

--- Open the first of several names that loads, for as long as the program runs.
---@param ... string names as for ffi.load
---@return ffi.namespace*|nil library
---@return string|nil why none did, in the loader's words
function M.open(...)
  local reasons = {}
  for i = 1, select('#', ...) do
    local name = select(i, ...)
    local ok, library = pcall(ffi.load, name)
    if ok then
      debug.getregistry()['ridge ' .. name] = library
      return library
    end
    reasons[i] = tostring(library)
  end
  return nil, table.concat(reasons, '; ')
end

return M
