-- SPDX-License-Identifier: MIT
-- Alarms of memory that act, what the system says, and the stages of a model.

local ridge = require 'ridge'
local memory = ridge.memory
local system = require 'ridge.memory.system'

local MB = 2 ^ 20

-- Set an alarm whose lines are kept.
local function set(megabytes, opts)
  local said = {}
  opts = opts or {}
  opts.say = opts.say or function(line) said[#said + 1] = line end
  return memory.alarm(megabytes, opts), said
end

-- Take and give back, so that debt is paid and the cache grows.
local function churn(n)
  for i = 1, n do ridge.empty(MB + i * 200000):release() end
end

local function live_mb() return memory.stats().live / MB end

describe('an alarm of memory', function()
  before_each(function() memory.trim() end)
  after_each(function()
    for _, alarm in ipairs(memory.alarms()) do alarm:remove() end
    memory.trim()
  end)

  it('trims what is cached, counts it, and warns once', function()
    local alarm, said = set(live_mb() + 20)
    churn(30)
    assert.is_true(alarm.rang >= 2, alarm.rang)
    assert.equal(1, #said)
    assert.matches('^memory: cpu has %d+%.%d MB in use or cached, above the alarm at %d+%.%d MB; '
      .. 'collected and trimmed, which freed %d+%.%d MB$', said[1])
    assert.is_true(alarm.freed > 40 * MB, alarm.freed)
    assert.is_true(memory.stats().reserved < memory.stats().live + 40 * MB)
    assert.matches('^alarm at .*: rang %d+ times, freed %d', tostring(alarm))
  end)

  it('collects what is dead in Lua', function()
    local before = live_mb()
    collectgarbage()
    do
      local held = {}
      for i = 1, 10 do held[i] = ridge.empty(MB) end
      assert.equal(10, #held)
    end
    collectgarbage 'stop' -- what is dead is dead until it rings
    local alarm = set(live_mb() - 20)
    local freed = alarm:check()
    collectgarbage 'restart'
    assert.is_true(freed >= 40 * MB, freed)
    assert.is_true(live_mb() < before + 4)
  end)

  it('leaves compiled code alone where what is dead suffices', function()
    local ref = require 'ridge.ffi.ref'
    local all, calls = ref.collect_all, 0
    collectgarbage()
    do
      local held = {}
      for i = 1, 10 do held[i] = ridge.empty(MB) end
      assert.equal(10, #held)
    end
    collectgarbage 'stop'
    local alarm = set(live_mb() - 20)
    function ref.collect_all(...)
      calls = calls + 1
      return all(...)
    end
    local ok, freed = pcall(alarm.check, alarm)
    ref.collect_all = all
    collectgarbage 'restart'
    assert(ok, freed)
    assert.is_true(freed >= 40 * MB)
    assert.equal(0, calls)
  end)

  it('looks on where all is freed at once, and the cache grows by new sizes', function()
    local alarm = set(live_mb() + 20)
    local most = 0
    for i = 1, 60 do -- each below the debt at which a call pays
      ridge.empty(2 ^ 14 * i):release()
      most = math.max(most, memory.stats().reserved / MB)
    end
    assert.is_true(alarm.rang >= 2, alarm.rang)
    assert.is_true(most < live_mb() + 32, most)
  end)

  it('pays no debt with what others freed while it looks on', function()
    local C = require 'ridge.ffi.lib'
    local m = C.rg_memory_of(0)
    local alarm = set(live_mb() + 1000)
    ridge.empty(2 ^ 17):release()
    assert.is_true(m.freed_bytes >= 2 ^ 19)
    alarm:remove()
    assert.equal(0, tonumber(m.freed_bytes))
    m.debt_bytes = 2 ^ 20
    ridge.empty(2 ^ 17):release() -- what it adds and what that frees are the same
    assert.equal(2 ^ 20, tonumber(m.debt_bytes))
    m.debt_bytes = 0
  end)

  it('says once that what is live is above it, and acts again only when that grows', function()
    local alarm, said = set(live_mb() + 10)
    local held = {}
    for i = 1, 6 do held[i] = ridge.empty(MB) end
    local rang = alarm.rang
    assert.is_true(rang >= 1)
    assert.matches(' stay, .* of them live$', said[#said])
    local lines = #said
    for _ = 1, 40 do ridge.empty(MB / 8):release() end
    assert.is_true(alarm.rang <= rang + 1, alarm.rang)
    for i = 7, 40 do held[i] = ridge.empty(MB) end
    assert.equal(40, #held)
    assert.is_true(alarm.rang > rang + 1)
    assert.equal(lines, #said)
  end)

  it('that is looked at by hand says what it freed', function()
    local alarm = set(live_mb() + 4)
    assert.is_nil(alarm:check())
    ridge.empty(3 * MB):release()
    alarm.stuck_at = nil
    assert.is_true(memory.stats().reserved / MB < live_mb() + 4 or alarm:check() >= 12 * MB)
    assert.is_true(alarm:remove())
    assert.is_false(alarm:remove())
    assert.is_nil(alarm:check())
    assert.same({}, memory.alarms())
  end)

  it('calls what is to be done about it, and a function that raises loses nothing', function()
    local facts
    local alarm = set(live_mb() + 20, { act = function(f)
      facts = f
      error 'on purpose'
    end, say = function() error 'nor this' end })
    local written = {}
    local stderr = io.stderr
    local function write(_, ...) written[#written + 1] = table.concat { ... } end
    io.stderr = { write = write } -- luacheck: ignore 122
    local ok, err = pcall(churn, 30)
    local sum = ridge.ones(3):sum():item()
    io.stderr = stderr -- luacheck: ignore 122
    assert.is_true(ok, tostring(err))
    assert.equal(3, sum)
    assert.is_true(alarm.rang >= 2)
    assert.equal(1, #written)
    assert.matches('^memory.alarm: say failed: .*nor this', written[1])
    assert.is_true(facts.before > facts.mark and facts.freed > 0 and facts.after < facts.before)
    assert.equal('cpu', facts.device)
  end)

  -- A tensor of 4 MB that nothing but what LuaJIT has compiled knows any more.
  local function compile_with_tensor()
    local x, n = ridge.ones(MB), 0
    local function is_there() return x ~= nil and x.dtype == 'f32' end
    for _ = 1, 1000 do n = is_there() and n + 1 or n end
    assert.equal(1000, n)
  end

  it('frees what only compiled code holds, where collecting alone does not suffice', function()
    local before = live_mb()
    compile_with_tensor()
    set(before + 3):check()
    assert.near(before, live_mb(), 1)
  end)

  it('need not ring for that where memory ends', function()
    local before = live_mb()
    compile_with_tensor()
    memory.set_limit((before + 6) * MB)
    local ok, x = pcall(ridge.empty, MB)
    memory.set_limit(0)
    assert.is_true(ok, tostring(x))
    x:release()
    memory.trim()
    assert.near(before, live_mb(), 1)
  end)

  it('rings of several that are set, whichever it is', function()
    local high, low = set(live_mb() + 10000), set(live_mb() + 20)
    churn(30)
    assert.same({ 0, true }, { high.rang, low.rang >= 2 })
  end)

  it('may remove itself when it rings', function()
    local one, two
    one = set(live_mb() + 20, { act = function(f) f.alarm:remove() end })
    two = set(live_mb() + 20)
    churn(30)
    assert.equal(1, one.rang)
    assert.same({ two }, memory.alarms())
    assert.is_true(two.rang >= 1)
  end)

  it('is at a share of the memory, or of its limit (F11)', function()
    assert.near(0.9 * ridge.device.facts('cpu').memory / MB, memory.alarm(nil, { share = 0.9 }).mb,
      1)
    memory.set_limit(100 * MB)
    local alarm = memory.alarm(nil, { share = 0.5 })
    memory.set_limit(0)
    assert.equal(50, alarm.mb)
  end)

  it("is at a percentage of the machine's memory (F10)", function()
    local now = assert(system.percent())
    local high, said_high = set(nil, { system_percent = math.min(100, now + 30) })
    assert.is_nil(high:check())
    local low, said = set(nil, { system_percent = now / 4 })
    ridge.empty(2 * MB):release()
    assert.is_true(low.rang == 1 or low:check() >= 0)
    assert.equal(1, #said)
    assert.matches("the machine has .* %% of the system's memory, above the alarm at .* %%",
      said[1])
    assert.same({}, said_high)
  end)

  it('that could not help rings again when a twentieth more is there than it left', function()
    local percent, at = system.percent, 0
    local alarm = set(nil, { system_percent = 50 })
    -- before it acts and behind it: 60 and 52, 54.7 and 54; else a look that rings nothing
    local levels = { 60, 52, 54, 54.5, 54.7, 54, 56.6, 50, 49, 50.1, 50.1 }
    local function look(from)
      at = from - 1
      return alarm:check() ~= nil
    end
    system.percent = function()
      at = at + 1
      return levels[at]
    end
    local ok, err = pcall(function()
      assert.is_true(look(1))
      assert.is_false(look(3))
      assert.is_false(look(4))
      assert.is_true(look(5)) -- 1.05 * 52 is 54.6
      assert.is_false(look(7)) -- 1.05 * 54 is 56.7
      assert.is_false(look(9)) -- below the mark: from here on as at first
      assert.is_true(look(10))
    end)
    system.percent = percent
    assert(ok, err)
    assert.equal(3, alarm.rang)
  end)

  it('at the percentage is refused where /proc cannot be read, and silent when that begins',
    function()
      local alarm = set(nil, { system_percent = 1e-3 })
      local path = system.meminfo
      system.meminfo = '/proc/none'
      local ok, err = pcall(memory.alarm, nil, { system_percent = 80 })
      local rang = alarm:check()
      system.meminfo = path
      assert.is_false(ok)
      assert.matches('system_percent cannot be watched: /proc/none: No such file', tostring(err))
      assert.is_nil(rang)
    end)

  it('takes its options alone, where none of them is megabytes', function()
    local alarm = memory.alarm { share = 0.999, say = function() end }
    assert.is_true(alarm.bytes > 2 ^ 30)
    local ok, err = pcall(memory.alarm, { shre = 0.9 })
    assert.is_false(ok)
    assert.matches("did you mean 'share'", tostring(err))
  end)

  it('is nowhere but above 0, and says so', function()
    for _, bad in ipairs { 0, -1, 0 / 0, 1 / 0, 1e300, 'x', true } do
      local ok, err = pcall(memory.alarm, bad)
      assert.is_false(ok)
      assert.matches('memory.alarm: megabytes are a finite number above 0, up to 2%^43, got ',
        tostring(err))
    end
    for _, opts in ipairs { {}, { share = 0.5, system_percent = 50 } } do
      local ok, err = pcall(memory.alarm, nil, opts)
      assert.is_false(ok)
      assert.matches('one of megabytes, share and system_percent', tostring(err))
    end
    for _, opts in ipairs { { share = 0 }, { share = 2 }, { share = 0 / 0 }, { system_percent = 0 },
      { system_percent = 101 }, { system_percent = -3 }, { act = 7 }, { devise = 'cpu' } } do
      assert.is_false(pcall(memory.alarm, nil, opts))
    end
    assert.is_false(pcall(memory.alarm, 7, { device = 'gpu' }))
    assert.same({}, memory.alarms())
  end)
end)

describe('what is done about an alarm', function()
  it('rings no alarm, however much memory it takes', function()
    local rang, kept, inner = 0, { ridge.ones(1024, 1024) }, 'none'
    local alarm = memory.alarm(1, { say = function() end, act = function(told)
      rang = rang + 1
      if rang < 4 then kept[#kept + 1] = ridge.ones(1024, 1024) end
      inner = told.alarm:check()
    end })
    alarm:check()
    local n = rang
    alarm:remove()
    assert.equal(1, n)
    assert.is_nil(inner)
  end)
end)

describe('what the system says of memory (F9)', function()
  it('has the fields of document 001', function()
    local s = memory.system()
    assert.near(s.system_total_gb, s.system_used_gb + s.system_available_gb, 1e-6)
    assert.near(100 * s.system_used_gb / s.system_total_gb, s.system_percent, 1e-6)
    assert.equal(s.system_percent, s.memory_usage_percent)
    assert.is_true(s.process_rss_mb > 1 and s.process_rss_mb <= s.process_vms_mb)
    if ridge.device.available() then
      assert.is_true(s.gpu_free_mb > 0 and s.gpu_reserved_mb >= s.gpu_allocated_mb)
    else
      assert.is_nil(s.gpu_memory_mb)
      assert.matches('%a', s.gpu_why)
    end
  end)

  it('leaves out what cannot be read, with the reason', function()
    local meminfo, statm = system.meminfo, system.statm
    local empty = os.tmpname()
    system.meminfo, system.statm = '/proc/none', empty
    local s, process = memory.system(), memory.process()
    system.meminfo, system.statm = empty, '/proc'
    local other = memory.system()
    system.meminfo, system.statm = meminfo, statm
    os.remove(empty)
    assert.is_nil(s.system_percent)
    assert.matches('^/proc/none: No such file or directory cannot be read$', s.system_why)
    assert.matches('does not say what the process has', s.process_why)
    assert.matches('does not say how much memory there is', other.system_why)
    assert.matches('^/proc: .*cannot be read', other.process_why)
    assert.same({ 0, 0 }, { process.rss, process.available })
    assert.is_true(process.total > 0)
  end)

  it('is printed with Lua beside it, in MB (F8)', function()
    local printed = {}
    local print_before = print
    _G.print = function(text) printed[#printed + 1] = text end -- luacheck: ignore 121
    local x = ridge.ones(MB)
    local line = memory.print()
    _G.print = print_before -- luacheck: ignore 121
    assert.same({ line }, printed)
    local live, peak, cached, lua = line:match(
      '^cpu: live (%d+%.%d) MB, peak (%d+%.%d) MB, cached (%d+%.%d) MB; Lua (%d+%.%d) MB$')
    assert.near(memory.stats().cached / MB, tonumber(cached), 0.06)
    assert.near(memory.stats().live / MB, tonumber(live), 0.06)
    assert.is_true(tonumber(peak) >= tonumber(live))
    assert.near(collectgarbage 'count' / 1024, tonumber(lua), 3)
    assert.equal(4 * MB, x.bytes)
  end)
end)

describe('the stages of a model (F7)', function()
  it('tell what parameters, input and a forward pass take', function()
    local net, calls = nil, 0
    local held = ridge.ones(1024, 1024) -- before all of it
    local s = memory.stages {
      model = function()
        net = ridge.nn.Linear(1024, 256, { bias = false })
        return net
      end,
      input = function() return ridge.ones(128, 1024) end,
      forward = function(m, x)
        calls = calls + 1
        local spare = ridge.ones(1024, 1024)
        spare:release()
        return x:relu(), m
      end,
    }
    assert.same({ 1, 0.5, 0.5, 1 }, { s.model, s.input, s.forward, calls })
    assert.same({ 'baseline', 'model', 'input', 'forward' },
      { s[1].stage, s[2].stage, s[3].stage, s[4].stage })
    assert.is_true(s.baseline >= held.bytes / 2 ^ 20 and s.baseline == s[1].live)
    assert.near(s.baseline + 2, s[4].live, 1e-9)
    assert.near(s.baseline + 5.5, s[4].peak, 1e-9)
    assert.matches('after +live MB +more MB +peak MB\nbaseline +%d+%.%d +%d+%.%d\nmodel +%d+%.%d '
      .. '+%+1%.0 ', tostring(s))
  end)

  it('are the same when they are told again: nothing of the first time is live', function()
    local function told()
      return memory.stages {
        model = function() return ridge.nn.Linear(512, 256) end,
        input = function() return ridge.ones(16, 512) end,
      }
    end
    local first, second = told(), told()
    for _, name in ipairs { 'baseline', 'model', 'input', 'forward' } do
      assert.near(first[name], second[name], 0.01, name)
    end
  end)

  it('hold what the backward pass reads', function()
    local function stages(training)
      return memory.stages {
        model = function()
          return ridge.nn.Sequential(ridge.nn.Linear(64, 512), ridge.nn.GELU(),
            ridge.nn.Linear(512, 8))
        end,
        forward = not training and ridge.inference or nil,
        input = function() return ridge.ones(256, 64) end,
      }
    end
    stages(false) -- packed weights and the like come with both
    assert.is_true(stages(true).forward >= stages(false).forward + 0.5)
  end)

  it('pass an error on, and say what is missing', function()
    local ok, err = pcall(memory.stages, { model = function() error 'on purpose' end,
      input = function() end })
    assert.is_false(ok)
    assert.matches('on purpose', tostring(err))
    ok, err = pcall(memory.stages, { model = function() return 7 end, input = function() end })
    assert.is_false(ok)
    assert.matches('model makes 7, which cannot be called', tostring(err))
    ok, err = pcall(memory.stages, { model = function() end })
    assert.is_false(ok)
    assert.matches('option input is missing', tostring(err))
  end)
end)
