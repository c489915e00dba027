-- SPDX-License-Identifier: MIT
-- Libraries outlive what they made: a program forgets the modules of ridge while a canvas and a
-- database are still to be collected, or that of LuaJIT which knows the types of all of them.

local PROGRAM = [[luajit -e '
  package.path = "lua/?.lua;lua/?/init.lua;" .. package.path
  local function make(name)
    if name == "canvas" then
      require("ridge.plot.canvas").new { width = 20, height = 20 }
    elseif name == "database" then
      require("ridge.store.sqlite").open(":memory:")
    else
      require("ridge.data.file").open("README.md", "test")
    end
  end
  for i = 1, 3 do
    for k = 1, 20 do make "%s" end
    for name in pairs(package.loaded) do
      if name:match "^ridge" then package.loaded[name] = nil end
    end
    collectgarbage()
    collectgarbage()
  end
  io.write "ended"' 2>&1]]

describe('a library', function()
  for _, name in ipairs { 'canvas', 'database', 'file' } do
    it('is there when the last ' .. name .. ' is collected', function()
      local pipe = assert(io.popen(PROGRAM:format(name)))
      local text = pipe:read '*a'
      pipe:close()
      assert.equal('ended', text)
    end)
  end

  it('of LuaJIT is not opened twice', function()
    local pipe = assert(io.popen([[printf '%s\n' 'x = ridge.tensor(7)' '%reload ffi' \
      '(x + x):item()' 'collectgarbage()' 'x:item()' | ./ridge 2>&1]]))
    local text = pipe:read '*a'
    assert.is_truthy(pipe:close(), text)
    assert.equal('ffi is loaded\n14\n0\n7\n', text)
  end)
end)
