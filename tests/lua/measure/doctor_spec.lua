-- SPDX-License-Identifier: MIT
-- What is said of a machine: good, a warning with what to do, or that it is hidden.

local here = debug.getinfo(1, 'S').source:match('^@(.*/)')
local made_up = dofile(here .. 'machine.lua')
local approved = dofile 'tests/lua/approved.lua'
local device = require 'ridge.measure.device'
local doctor = require 'ridge.measure.doctor'

-- Everything that is said, in its order.
local function findings(signals, facts, more)
  local machine = made_up.new(signals)
  local services = machine:services()
  local before = services.facts
  services.facts = function()
    local out = before()
    for name, value in pairs { smt = 0, turbo = 0, on_battery = 0, thp = 'madvise',
                               quota_cpus = math.huge } do
      out[name] = value
    end
    for name, value in pairs(facts or {}) do out[name] = value end
    return out
  end
  local given = { services = services, noise = { aa = 0.004 } }
  for name, value in pairs(more or {}) do given[name] = value end
  return doctor.look(given)
end

local function look(signals, facts, more)
  local by_name = {}
  for _, f in ipairs(findings(signals, facts, more)) do by_name[f.name] = f end
  return by_name
end

describe('the doctor', function()
  it('has nothing to say about a quiet machine', function()
    for name, f in pairs(look()) do
      assert.equal('good', f.state, name)
      assert.is_nil(f.advice)
    end
  end)

  it('names what disturbs, and what to do', function()
    for name, case in pairs {
      others = { { busy_cpus = 1 } }, pressure = { { pressure = 0.1 } },
      steal = { { steal = 0.1 } }, throttled = { { throttled = 5 } },
      governor = { { governor = 'powersave' } }, turbo = { {}, { turbo = 1 } },
      smt = { {}, { smt = 1 } }, battery = { {}, { on_battery = 1 } },
      debugger = { { debugger = 1 } }, build = { { debug_build = true } },
      quota = { {}, { quota_cpus = 1.5 } },
      compute = { { sentinel = function(i) return 1 + 0.1 * (i % 2) end } },
      noise = { {}, {}, { noise = {} } },
    } do
      local found = look(case[1], case[2], case[3])
      for each, f in pairs(found) do
        assert.equal(each == name and 'warning' or 'good', f.state, name .. ': ' .. each)
      end
      assert.is_truthy(found[name].advice, name)
    end
  end)

  it('calls what it cannot see unavailable, not good', function()
    local found = look({ hidden = { 'busy_ns', 'steal_ns', 'pressure_ns', 'n_throttled' },
                         governor = '' },
                       { turbo = -1, smt = -1, on_battery = -1, quota_cpus = 0 / 0, thp = '' })
    for _, name in ipairs { 'others', 'steal', 'pressure', 'throttled', 'governor', 'turbo', 'smt',
                            'battery', 'quota', 'huge pages' } do
      assert.equal('unavailable', found[name].state, name)
    end
  end)

  it('says of each signal what was approved, with its number', function()
    local saved = { number = device.number, state = device.state,
      simulated = device.is_simulated, back = device.is_held_back }
    finally(function()
      device.number, device.state = saved.number, saved.state
      device.is_simulated, device.is_held_back = saved.simulated, saved.back
    end)
    local state, simulated
    function device.number(name) return name == 'cuda:1' and 2 or 0 end
    function device.state(number) return number == 2 and state end
    function device.is_simulated(number) return number == 2 and simulated end
    function device.is_held_back(held) return held == 4 end
    local out = {}
    local function say(title, ...)
      out[#out + 1] = title
      for _, f in ipairs(findings(...)) do
        out[#out + 1] = ('  %s %s: %s%s'):format(f.state, f.name, f.value, f.advice
          and '\n    ' .. f.advice or '')
      end
    end
    say('a quiet machine', {})
    say('all that disturbs', { busy_cpus = 0.5, pressure = 0.1234, steal = 0.05, throttled = 7,
      governor = 'powersave', debugger = 1, debug_build = true,
      sentinel = function(i) return 1 + 0.01 * (i % 7) end }, { turbo = 1, smt = 1,
      on_battery = 1, quota_cpus = 1.5 }, { noise = { steady = 1 } })
    say('at its limits', { busy_cpus = 0.12, pressure = 0.0199, steal = 0.00499 }, {
      quota_cpus = 64 }, { noise = { aa = 0.0123 } })
    say('above them', { busy_cpus = 0.26, pressure = 0.0201, steal = 0.00501 })
    say('all that is hidden', { hidden = { 'busy_ns', 'steal_ns', 'pressure_ns', 'n_throttled' },
      governor = '' }, { turbo = -1, smt = 0 / 0, on_battery = -1, quota_cpus = 0 / 0, thp = '' })
    local function of_device(title, now, is_simulated)
      state, simulated = now, is_simulated
      out[#out + 1] = title
      for _, f in ipairs(findings({}, {}, { device = 'cuda:1' })) do
        if f.name:find '^cuda' then
          out[#out + 1] = ('  %s %s: %s%s'):format(f.state, f.name, f.value, f.advice
            and '\n    ' .. f.advice or '')
        end
      end
    end
    of_device('a cool device', { clock_mhz = 1980, memory_mhz = 2619, celsius = 80, watts = 699,
      limit_watts = 700, words = '', held = 0 })
    of_device('a hot one', { clock_mhz = 1200, memory_mhz = 2619, celsius = 81, watts = 699,
      words = 'power heat', held = 4 })
    of_device('one that says little', { words = 'setting', held = 16 })
    of_device('one that says nothing', { why = 'there is no NVML' }, true)
    approved.check('measure/doctor', table.concat(out, '\n'))
  end)

  it('names who keeps the processors busy', function()
    local pipe = assert(io.popen [[exec 2>&1
      sh -c 'while :; do :; done' & export BUSY=$!
      ./ridge -e 'local clock = require("ridge.ffi.lib").rg_clock_ns
        local function used() -- seconds of its processor time
          local file = io.open("/proc/" .. os.getenv "BUSY" .. "/stat")
          local text = file:read "*a"
          file:close()
          local user, system = text:match("%) %S" .. (" %S+"):rep(10) .. " (%d+) (%d+)")
          return (user + system) / 100
        end
        local host, looks = require "ridge.host", {} -- at all processes, before and after
        local directory = host.directory
        host.directory = function(path)
          looks[#looks + 1] = { used(), tonumber(clock()) / 1e9 }
          -- those that have come since the first look, and do nothing, have kept nobody busy
          if #looks == 2 then os.execute "for i in $(seq 30); do sleep 3 & done" end
          return directory(path)
        end
        local list = require("ridge.measure").doctor { seconds = 0.5 }
        -- at least so much of a processor meanwhile
        print((looks[2][1] - looks[1][1] - 0.02) / (looks[2][2] - looks[1][2]))
        for _, f in ipairs(list) do
          if f.name == "others" then print(f.state, f.advice) end
        end'
      kill $BUSY
      echo $BUSY]])
    local text = pipe:read '*a'
    pipe:close()
    local least, found, pid = text:match '^(%S+)\n(.-)(%d+)\n$'
    assert.is_nil(found:find('sleep (', 1, true), text)
    local n = 0
    for other, cpus in found:gmatch '%((%d+)%) ([%d.]+)' do
      n = n + 1
      if other == pid then return end
      -- where it is not among the three that are named, these were as busy
      assert.is_true(tonumber(cpus) >= tonumber(least) - 0.05, text)
    end
    assert.equal(3, n, text)
  end)

  it('looks at this machine', function()
    local list = require('ridge.measure').doctor { seconds = 0.1 }
    assert.equal('timer', list[1].name)
    for _, f in ipairs(list) do
      assert.is_truthy(({ good = 1, warning = 1, unavailable = 1 })[f.state])
      assert.equal(f.state == 'good', f.advice == nil, f.name)
    end
  end)
end)
