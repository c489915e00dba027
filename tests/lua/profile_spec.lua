-- SPDX-License-Identifier: MIT
-- What a profile of a function leaves behind in the process that asked for it.

local function output(code)
  local pipe = assert(io.popen(("./ridge -e '%s' 2>&1; echo \"status $?\""):format(code)))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

describe('ridge.profile', function()
  it('has the time of each state once, all of it together', function()
    local text = output [[
      local ridge = require "ridge"
      local x = ridge.randn(300, 300)
      local function a() for i = 1, 3e7 do local _ = i * i end return x:matmul(x) end
      local function b() local s = 0 for i = 1, 3e7 do s = s + math.sin(i) end return s end
      local p = ridge.profile(function() a() b() a() end, { lines = true })
      local states, lines = 0, 0
      for _, share in pairs(p.states) do states = states + share end
      for _, line in ipairs(p.lines) do lines = lines + line.share end
      print(p.samples > 1, math.abs(states - 1) < 1e-9, math.abs(lines - 1) < 1e-9)]]
    assert.equal('true\ttrue\ttrue\nstatus 0\n', text)
  end)

  it('counts calls and time of each operation, once in the sum', function()
    local text = output [[
      local ridge = require "ridge"
      local x = ridge.randn(64, 64)
      local p = ridge.profile(function() for i = 1, 5 do x:matmul(x):relu() end end)
      local sum, calls, path = 0, {}
      for _, op in ipairs(p.operations) do
        sum, calls[op.op] = sum + op.ns, op.calls
        path = op.op == "matmul" and op.path or path
      end
      print(calls.matmul, calls.relu, sum > 0 and sum == p.op_ns)
      local seen
      local function capture() seen = ridge.capture(function() return x:matmul(x) end) end
      print(ridge.profile(capture).operations[1].path == path, path ~= nil and seen ~= nil)]]
    assert.equal('5\t5\ttrue\ntrue\ttrue\nstatus 0\n', text)
  end)

  it('has only the time of the function, not that of room for its events', function()
    local text = output [[
      local ridge = require "ridge"
      local ring, slow = require "ridge.ring", 0
      local open = ring.open
      function ring.open(...)
        local until_then = ridge.clock() + 0.2
        while ridge.clock() < until_then do slow = slow + 1 end
        return open(...)
      end
      local least = math.huge
      for _ = 1, 3 do least = math.min(least, ridge.profile(function() end).ns) end
      print(slow > 0, least < 1e8)]]
    assert.equal('true\ttrue\nstatus 0\n', text)
  end)

  it('that goes on for long forgets what was before its first event', function()
    -- a step is a window of time, and so is what lies between two yields
    for _, how in ipairs { 'wait = 1, active = 1, repeats = 0, num_steps = 20000', 'yields' } do
      local text = output(([[
        local ridge, how = require "ridge", %q
        local x, p = ridge.randn(4), nil
        if how == "yields" then
          local go = coroutine.wrap(function()
            return ridge.profile(function()
              for _ = 1, 20000 do x:exp() coroutine.yield() end
            end, { bytes = 2 ^ 17 })
          end)
          repeat p = go() until p
        else
          local o = loadstring("return {" .. how .. "}")()
          o.bytes = 2 ^ 17
          p = ridge.profile(function() x:exp() end, o)
        end
        local kept, ns = 0, 0
        for _, op in ipairs(p.operations) do if op.op == "exp" then kept = kept + op.calls end end
        for _, w in ipairs(p.windows) do ns = ns + w.to - w.from end
        print(kept + p.dropped >= 10000, kept >= 1000, #p.windows < 9000, #p.windows >= kept,
          math.abs(ns - p.ns) < 1, p.all_ns > 2 * p.ns)]]):format(how))
      assert.equal('true\ttrue\ttrue\ttrue\ttrue\ttrue\nstatus 0\n', text)
    end
  end)

  it('has samples of the time that it has events of', function()
    local text = output [[
      local ridge = require "ridge"
      local x = ridge.randn(4)
      local function busy() local s = 0 for i = 1, 1e8 do s = s + i % 3 end return s end
      local function work() for _ = 1, 5000 do x:exp() end end
      local p = ridge.profile(function() busy() work() end, { bytes = 2 ^ 17, lines = true })
      local all = ridge.profile(function() busy() work() end, { lines = true })
      -- a sample is of 10 ms of processor time
      print(p.dropped > 0, p.samples * 1e7 <= p.ns + 3e7, all.dropped, all.samples > 3)]]
    assert.equal('true\ttrue\t0\ttrue\nstatus 0\n', text)
  end)

  it('keeps no samples of steps that had none', function()
    local text = output [[
      local samples = require("ridge") and require "ridge.profile.samples"
      local entry = samples.new()
      entry.wanted = true
      samples.SAMPLING.on(entry)
      for _ = 1, 50 do samples.want(entry, false) samples.want(entry, true) end
      samples.SAMPLING.off(entry)
      print(#entry.parts < 25)]]
    assert.equal('true\nstatus 0\n', text)
  end)

  it('leaves a script alive that its last sample reaches late', function()
    local text = output [[
      local ffi = require "ffi"
      ffi.cdef "int raise(int signal);"
      require("ridge").profile(function() end, { lines = true })
      ffi.C.raise(27) -- SIGPROF, as the timer sends it
      print "alive"]]
    assert.equal('alive\nstatus 0\n', text)
  end)

  it('sends its ticks to no compute thread', function()
    -- a timer of the process would: LuaJIT's handler then runs beside the stop, and crashes
    local text = output [[
      local ffi, ridge = require "ffi", require "ridge"
      ffi.cdef "struct rg_itimer { long every[2], left[2]; };"
      ffi.cdef "int getitimer(int which, struct rg_itimer *now);"
      require("ridge.backend").set_threads(16)
      local x, timer = ridge.randn(200, 200), ffi.new "struct rg_itimer"
      local longest = 0
      for i = 1, 200 do
        local p = ridge.profile(function()
          for k = 1, i == 200 and 300 or 3 do x:matmul(x):exp():sum() end
          assert(ffi.C.getitimer(2, timer) == 0)
        end, { lines = true })
        longest = math.max(longest, p.samples)
        assert(timer.left[0] == 0 and timer.left[1] == 0)
      end
      print(longest > 0)]]
    assert.equal('true\nstatus 0\n', text)
  end)

  it('says that somebody else has used the only profiler that LuaJIT has', function()
    local text = output [[
      local ridge = require "ridge"
      local function busy() local s = 0 for i = 1, 1e6 do s = s + i % 3 end return s end
      local function others() require("jit.profile").start("l", function() end) end
      local function told(f)
        for _, note in ipairs(ridge.profile(f, { roof = "none", lines = true }).notes) do
          if note:find "somebody else" then return true end
        end
        return false
      end
      print(told(busy), told(function() others() require("jit.profile").stop() busy() end),
        told(function() ridge.profile(busy, { lines = true }) busy() end), told(busy))]]
    assert.equal('false\ttrue\tfalse\tfalse\nstatus 0\n', text)
  end)
end)
