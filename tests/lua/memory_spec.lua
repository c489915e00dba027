-- SPDX-License-Identifier: MIT
local ridge = require 'ridge'
local memory = require 'ridge.memory'

describe('memory', function()
  it('counts live bytes and their peak, which can be started again (F3)', function()
    memory.scope(function()
      local before = memory.stats().live
      memory.reset_peak()
      local x = ridge.zeros(1000, 1000)
      assert.equal(before + 4e6, memory.stats().live)
      x:release()
      assert.equal(before, memory.stats().live)
      assert.equal(before + 4e6, memory.stats().peak)
      memory.reset_peak()
      assert.equal(before, memory.stats().peak)
    end)
  end)

  it('keeps freed blocks for the next call, until they are given back (F13)', function()
    memory.trim()
    local reserved = memory.stats().reserved
    ridge.zeros(3, 2 ^ 20):release()
    local with = memory.stats().reserved
    assert.is_true(with >= reserved + 12 * 2 ^ 20)
    ridge.zeros(3, 2 ^ 20):release()
    assert.equal(with, memory.stats().reserved)
    assert.is_true(memory.trim() >= 12 * 2 ^ 20)
    assert.is_true(memory.stats().reserved < with)
  end)

  it('prints allocated, reserved and peak in GB, and starts the peak again (F2)', function()
    local lines, print_before = {}, print
    memory.reset_peak()
    local held = ridge.empty(64, 2 ^ 20)
    local function gb(bytes) return ('%.2f'):format(bytes / 1073741824) end
    local s = memory.stats()
    assert.is_true(s.live >= 2 ^ 28) -- with 1e9 bytes each of them would be 0.27 and more
    assert.equal(('allocated %s GB, reserved %s GB, max allocated %s GB'):format(gb(s.live),
      gb(s.reserved), gb(s.peak)), memory.line 'cpu')
    held:release()
    _G.print = function(line) lines[#lines + 1] = line end -- luacheck: ignore 121
    local ok, line = pcall(memory.print_stats)
    _G.print = print_before -- luacheck: ignore 121
    assert.is_true(ok, line)
    assert.same({ line }, lines)
    local allocated, reserved, peak = line:match(
      '^allocated (%d+%.%d%d) GB, reserved (%d+%.%d%d) GB, max allocated (%d+%.%d%d) GB$')
    assert.is_truthy(allocated, line)
    assert.is_true(tonumber(reserved) >= tonumber(allocated))
    assert.is_true(tonumber(peak) >= 0.25)
    assert.is_true(memory.stats().peak < 0.25 * 2 ^ 30)
  end)

  it('is counted by tag, as long as it lives', function()
    local x = memory.tag('mine', ridge.zeros, 100)
    local y = ridge.zeros(100)
    assert.same({ live = 400, peak = 400, blocks = 1 }, memory.stats().tags.mine)
    x:release()
    y:release()
    assert.same({ live = 0, peak = 400, blocks = 0 }, memory.stats().tags.mine)
    memory.reset_peak()
    assert.is_nil(memory.stats().tags.mine)
    local ok, err = pcall(memory.tag, 'mine', 3)
    assert.is_false(ok)
    assert.matches('a function is expected', tostring(err))
  end)

  it('tells what a function needs at its highest point', function()
    local n = memory.peak_of(function()
      local x = ridge.zeros(1000)
      x = x + 1
      return x + 1
    end)
    assert.is_true(n >= 8000 and n <= 12000 + 64, n)
  end)

  it('is not taken by views (F22)', function()
    local x = ridge.randn(64, 64)
    local before = memory.stats()
    local views = { x:t(), x[1], x:narrow(1, 2, 3), x:reshape(4096) }
    assert.equal(before.live, memory.stats().live)
    assert.equal(before.tensors + #views, memory.stats().tensors)
  end)

  it('of the process is what the system says', function()
    local p = memory.process()
    assert.is_true(p.rss > 2 ^ 20 and p.rss <= p.vms and p.available <= p.total)
  end)
end)

describe('the limit of memory', function()
  it('is a number of bytes, which nan is not', function()
    for _, bytes in ipairs { 0 / 0, -1, 1e300, 1 / 0, 'x' } do
      local ok, err = pcall(ridge.memory.set_limit, bytes)
      assert.is_false(ok)
      assert.matches('memory.set_limit: bytes are a finite number from 0, up to 2%^53, got ',
        err.message)
    end
  end)
end)
