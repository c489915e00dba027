-- SPDX-License-Identifier: MIT
-- What a profile of a function leaves behind in the process that asked for it.

local function output(code)
  local pipe = assert(io.popen(("./ridge -e '%s' 2>&1; echo \"status $?\""):format(code)))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

describe('ridge.profile', function()
  it('leaves a script alive that its last sample reaches late', function()
    local text = output [[
      local ffi = require "ffi"
      ffi.cdef "int raise(int signal);"
      require("ridge").profile(function() end)
      ffi.C.raise(27) -- SIGPROF, as the timer sends it
      print "alive"]]
    assert.equal('alive\nstatus 0\n', text)
  end)
end)
