-- SPDX-License-Identifier: MIT
-- Chains of functions as kernels of their own, by the stand-in for NVRTC on the simulated GPU: the
-- same bits as without it, compiled once, and kept in files that are believed only whole.
local SIMULATED = 'build/libridge_gpusim.so'

local there = io.open(SIMULATED)
if there then there:close() end

local FOLDER, LOG

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

local function files() return output('ls ' .. FOLDER .. '/cache/ridge/fused-*.bin') end

-- What a run of some programs says, and how many texts were compiled for it.
local function run(environment, words)
  os.remove(LOG)
  local said = output(('RIDGE_GPU=%s XDG_CACHE_HOME= RIDGE_NVRTC=simulated RG_SIM_NVRTC_LOG=%s %s '
    .. './ridge %s'):format(SIMULATED, LOG, environment, words or 'tests/lua/fused_child.lua 1 4'))
  local n, file = 0, io.open(LOG)
  for _ in file and file:lines() or function() end do n = n + 1 end
  if file then file:close() end
  return said, n
end

local function case(name, f)
  it(name, function()
    if not there then return pending 'no nvcc: the simulated GPU was not built' end
    f()
  end)
end

describe('chains that are compiled', function()
  setup(function()
    FOLDER = os.tmpname()
    os.remove(FOLDER)
    output('mkdir -p ' .. FOLDER .. '/cache')
    LOG = FOLDER .. '/log'
  end)
  teardown(function() output('rm -r ' .. FOLDER) end)

  case('give the bits of the functions one by one', function()
    local said, n = run('RG_SIM_ORDER=rand:3', 'tests/lua/fused_child.lua 7 12')
    assert.equal('done\n', said)
    assert.is_true(n > 12, n)
    said = run('RG_SIM_NVRTC_WRONG=1', [[-e 'local x = ridge.ones(3, { device = "sim:0" })
      local plan = ridge.capture(function() return (x + 1):tanh() end)
      plan:run(3)
      return plan.results[1]:tolist()[1]']])
    assert.equal('0\n', said) -- it was the compiled kernel that ran, in the graph as well
  end)

  -- One number for eight neighbours: a single one, one a row, one for several rows.
  case('are one kernel for what is repeated along whole eights, however often', function()
    local said, n = run('RG_SIM_ORDER=fwd', [[-e 'local o = { device = "sim:0" }
      local x = ridge.ones(4, 16, o)
      for _, y in ipairs { ridge.full(2, 1, o), ridge.full(2, 4, 1, o), ridge.full(2, 1, 1, o) } do
        local plan = ridge.capture(function() return (x * y):tanh() end)
        plan:run(1)
        print(plan.results[1]:get(4, 16) > 0.96)
      end']])
    assert.equal('true\ntrue\ntrue\n', said)
    assert.equal(1, n)
    -- and another one for what changes within them
    said, n = run('RG_SIM_ORDER=fwd', [[-e 'local o = { device = "sim:0" }
      local x = ridge.ones(3, 5, o)
      for _, y in ipairs { ridge.full(2, 1, o), ridge.full(2, 3, 1, o) } do
        local plan = ridge.capture(function() return (x * y):tanh() end)
        plan:run(1)
        print(plan.results[1]:get(3, 5) > 0.96)
      end']])
    assert.equal('true\ntrue\n', said)
    assert.equal(2, n)
  end)

  -- From 2^15 elements a multiprocessor on, of which the simulated GPU has four.  What a thread
  -- left out would stay what the capture wrote.
  case('take two packs a thread of very many elements, and leave none out', function()
    local said, n = run('RG_SIM_ORDER=fwd', [[-e 'local o = { device = "sim:0" }
      for _, count in ipairs { 131071, 131072, 131072 + 2048 + 8 + 5 } do
        local x, y = ridge.ones(count, o), ridge.randn(count, o)
        local plan = ridge.capture(function() return (x * 2):tanh() end)
        x:copy_(y)
        plan:run(1)
        print(plan.results[1]:to("cpu"):equal((y * 2):tanh():to "cpu"))
      end']])
    assert.equal('true\ntrue\ntrue\n', said)
    assert.equal(2, n) -- by one pack and by two
  end)

  case('are not, where there is no compiler, or it fails, or is not wanted', function()
    for _, environment in ipairs { 'RIDGE_NVRTC=none', 'RIDGE_NVRTC=' } do
      local said, n = run(environment)
      assert.equal('done\n', said)
      assert.equal(0, n)
    end
    local said, n = run 'CXX=false'
    assert.equal('done\n', said)
    assert.is_true(n > 4)
    said = run('CXX=false', [[-e 'local x = ridge.ones(3, { device = "sim:0" })
      local plan = ridge.capture(function() return (x + 1):tanh() end)
      plan:run(2)
      return ridge.device.libraries("sim:0", true).why.nvrtc']])
    assert.matches('NVRTC_ERROR_COMPILATION', said)
    said, n = run('', [[-e 'ridge.set_default_backend(ridge.backend.cuda { vendor = false })
      local x = ridge.ones(3, { device = "sim:0" })
      local plan = ridge.capture(function() return (x + 1):tanh() end)
      plan:run(3)
      return plan.results[1]:tolist()[1] == (x + 1):tanh():tolist()[1]']])
    assert.equal('true\n', said)
    assert.equal(0, n)
  end)

  case('store what is returned, and not what nobody holds', function()
    local said, n = run('XDG_CACHE_HOME=' .. FOLDER .. '/cache', [[-e 'local x = ridge.ones(8, {
      device = "sim:0" })
      local plan = ridge.capture(function() return (x + 1):tanh() end)
      plan:run(2)
      return plan.results[1]:tolist()[1]']])
    assert.matches('^0.964', said)
    assert.equal(1, n)
    local file = assert(io.open((files():gsub('\n$', '')), 'rb'))
    local text = file:read '*a'
    file:close()
    output('rm ' .. files())
    assert.is_truthy(text:find('(d.out[0], i, v)', 1, true))
    assert.is_nil(text:find('(d.out[1], i, v)', 1, true))
  end)

  case('are kept for the next process, and believed only whole', function()
    local cache = 'XDG_CACHE_HOME=' .. FOLDER .. '/cache'
    local said, n = run(cache)
    assert.equal('done\n', said)
    local list, names = files(), {}
    for name in list:gmatch '[^\n]+' do names[#names + 1] = name end
    assert.equal(n, #names)
    said, n = run(cache)
    assert.equal('done\n', said)
    assert.equal(0, n)

    -- one byte of one, the end of another, all of a third; one of an older ridge
    local function spoil(name, f)
      local file = assert(io.open(name, 'rb'))
      local text = file:read '*a'
      file:close()
      file = assert(io.open(name, 'wb'))
      file:write(f(text))
      file:close()
    end
    spoil(names[1], function(t)
      local at = math.floor(#t / 2)
      return t:sub(1, at - 1) .. string.char((t:byte(at) + 1) % 256) .. t:sub(at + 1)
    end)
    spoil(names[2], function(t) return t:sub(1, -2) end)
    spoil(names[3], function() return '' end)
    spoil(names[4], function(t) return (t:gsub('fused 1', 'fused 0', 1)) end)
    said, n = run(cache)
    assert.equal('done\n', said)
    assert.equal(4, n)
    said, n = run(cache)
    assert.equal('done\n', said)
    assert.equal(0, n)
    assert.equal(list, files())
    for name in output('ls ' .. FOLDER .. '/cache/ridge'):gmatch '[^\n]+' do
      assert.is_truthy(name == 'cublaslt.txt' or name:match '^fused%-%x+%.bin$', name)
    end
  end)

  -- The compiler's code is made longer, behind what is loaded of it.
  case('are kept in files of 4 MiB at most', function()
    local cxx, size = FOLDER .. '/cxx', FOLDER .. '/size'
    local file = assert(io.open(cxx, 'w'))
    file:write(([=[#!/bin/sh
c++ "$@" || exit 1
for word; do
  [ "$last" != -o ] || out=$word
  last=$word
done
[ -z "$PAD" ] || truncate -s "$PAD" "$out"
stat -c %%s "$out" >%s
]=]):format(size))
    file:close()
    output('chmod +x ' .. cxx)
    local folder = FOLDER .. '/most'
    local function compiled(pad)
      local said, n = run(('XDG_CACHE_HOME=%s CXX=%s PAD=%s'):format(folder, cxx, pad or ''),
        [[-e 'local x = ridge.ones(8, { device = "sim:0" })
        local plan = ridge.capture(function() return (x + 1):tanh() end)
        plan:run(2)
        return plan.results[1]:tolist()[1]']])
      assert.matches('^0.964', said)
      return n
    end
    local function kept() return output('stat -c %s ' .. folder .. '/ridge/fused-*.bin') end
    output('mkdir ' .. folder)
    assert.equal(1, compiled())
    local beside = tonumber(kept()) - tonumber(output('cat ' .. size)) -- its head, text and hash
    output('rm ' .. folder .. '/ridge/fused-*.bin')
    assert.equal(1, compiled(4194304 - beside))
    assert.equal('4194304\n', kept())
    assert.equal(0, compiled(4194304 - beside))
    output('rm ' .. folder .. '/ridge/fused-*.bin')
    assert.equal(1, compiled(4194305 - beside))
    assert.is_nil(tonumber(kept()))
    assert.equal(1, compiled(4194305 - beside))
  end)
end)
