-- SPDX-License-Identifier: MIT
-- Copies of this program as children: lines there and back, and each kind of end.

local process = require 'ridge.process'

local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
local SECOND = 1e9

local function child(opt)
  local path = package.path
  package.path = here .. '?.lua;' .. path
  local given = { module = 'process_child', env = { RIDGE_TEST_NAME = 'a child' }, err = -1 }
  for name, value in pairs(opt or {}) do given[name] = value end
  local p = process.spawn(given)
  package.path = path
  return p
end

describe('a child process', function()
  it('answers lines of any length, in order', function()
    local p = child()
    p:send 'one'
    p:send 'two'
    assert.equal('one from a child', p:receive(60 * SECOND))
    assert.equal('two from a child', p:receive(60 * SECOND))
    p:send 'long'
    assert.equal(('x'):rep(200000) .. ' from a child', p:receive(60 * SECOND))
    local text, why = p:receive(1e6)
    assert.is_nil(text)
    assert.equal('timeout', why)
    assert.is_true(p:wait(0).running)
    p:send 'end'
    assert.same({ running = false, code = 5, signal = 0 }, p:wait(60 * SECOND))
    p:close()
    p:close()
  end)

  it('closes its channel when it dies', function()
    local p = child()
    p:send 'die'
    local text, why = p:receive()
    assert.is_nil(text)
    assert.equal('closed', why)
    assert.equal(1, p:wait().code)
    assert.has_error(function() p:send 'more' end)
    p:close()
  end)

  it('is killed when it is released', function()
    local p = child { own_group = true }
    p:send 'one'
    assert.is_truthy(p:receive(60 * SECOND))
    p:close()
    local stat = io.open(('/proc/%d/stat'):format(p.pid))
    if stat then stat:close() end
    assert.is_nil(stat)
  end)

  it('dies of a signal, and says of which', function()
    local p = child()
    p:kill(15)
    assert.equal(15, p:wait(60 * SECOND).signal)
    p:close()
  end)

  it('is started from the program that runs, also where a newer one took its place', function()
    local copy = os.tmpname()
    os.remove(copy) -- cp would keep its mode
    os.execute('cp build/ridge ' .. copy)
    local pipe = io.popen(([[%s -e 'os.remove "%s"
      print(require("ridge.process").spawn{ words = { "-e", "os.exit(7)" } }:wait().code)']])
      :format(copy, copy))
    local text = pipe:read '*a'
    pipe:close()
    os.remove(copy)
    assert.equal('7\n', text)
  end)

  it('is refused an unknown option', function()
    local ok, err = pcall(process.spawn, { modul = 'x' })
    assert.is_false(ok)
    assert.is_truthy(tostring(err):find("did you mean 'module'", 1, true))
  end)
end)
