-- SPDX-License-Identifier: MIT
local sources = require 'ridge.repl.sources'

describe('the sources', function()
  it('are those of the folder that RIDGE_LUA names, else those that are loaded', function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute(("mkdir -p '%s/ridge' && touch '%s/ridge/only.lua'"):format(folder, folder))
    local getenv, named = os.getenv, folder
    os.getenv = function(name) -- luacheck: ignore 122
      if name == 'RIDGE_LUA' then return named end
      return getenv(name)
    end
    local ok, there = pcall(sources.files)
    named = ''
    local ok_too, loaded = pcall(sources.files)
    os.getenv = getenv -- luacheck: ignore 122
    os.execute(("rm -r '%s'"):format(folder))
    assert.is_true(ok and ok_too)
    assert.same({ 'ridge/only.lua' }, there)
    local own = false
    for _, path in ipairs(loaded) do own = own or path == 'ridge/repl/sources.lua' end
    assert.is_true(own)
  end)
end)
