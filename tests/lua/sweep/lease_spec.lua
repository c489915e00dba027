-- SPDX-License-Identifier: MIT
-- Which folder the leases of a machine are in: by variables, and by what can be written to.
local lease = require 'ridge.sweep.lease'
local place = require 'ridge.store.place'

describe('the folder of leases', function()
  local getenv, writable, exists = os.getenv, place.writable, place.exists

  after_each(function()
    os.getenv = getenv -- luacheck: ignore 122
    place.writable, place.exists = writable, exists
  end)

  --- The folder where these variables are set, these folders exist and those can be written to.
  local function folder(variables, open, there)
    os.getenv = function(name) return variables[name] end -- luacheck: ignore 122
    place.writable = function(path) return open[path] == true end
    place.exists = function(path) return there ~= nil and there[path] == true end
    return lease.folder()
  end

  it('is the one that is named', function()
    assert.equal('/x', folder({ RIDGE_LOCKS = '/x', XDG_RUNTIME_DIR = '/run/user/7' },
      { ['/run/lock'] = true }))
    assert.equal('/run/lock/ridge', folder({ RIDGE_LOCKS = '' }, { ['/run/lock'] = true }))
  end)

  it('is shared by all users where that can be, else the user\'s own, else in /tmp', function()
    local own = { XDG_RUNTIME_DIR = '/run/user/7' }
    local all = { ['/run/lock'] = true, ['/run/user/7'] = true, ['/tmp'] = true }
    assert.equal('/run/lock/ridge', folder(own, all))
    all['/run/lock'] = nil
    assert.equal('/run/user/7/ridge', folder(own, all))
    assert.equal('/tmp/ridge', folder({}, all))
    assert.equal('/tmp/ridge', folder({ XDG_RUNTIME_DIR = '' }, all))
    all['/run/user/7'] = nil
    assert.equal('/tmp/ridge', folder(own, all))
    assert.equal('/tmp/ridge', folder(own, {}))
  end)

  it('that is there already has to be open itself', function()
    local there = { ['/run/lock/ridge'] = true }
    assert.equal('/tmp/ridge', folder({}, { ['/run/lock'] = true, ['/tmp'] = true }, there))
    assert.equal('/run/lock/ridge', folder({}, { ['/run/lock/ridge'] = true }, there))
  end)
end)
