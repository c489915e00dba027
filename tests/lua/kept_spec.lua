-- SPDX-License-Identifier: MIT
-- What the GPU's libraries found, kept in files for the next process (gpu/cache.cu): whatever
-- stands where such a file belongs, nobody waits for it, it keeps its kind, mode and links, and the
-- results are right.
local SIMULATED = 'build/libridge_gpusim.so'

local there = io.open(SIMULATED)
if there then there:close() end

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

local function read(path)
  local file = io.open(path, 'rb')
  local text = file and file:read '*a'
  if file then file:close() end
  return text
end

local function put(path, text)
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
end

local CHAIN = [[local ridge = require 'ridge'
  local x = ridge.ones(3, { device = 'sim:0' })
  local plan = ridge.capture(function() return (x + 1):tanh() end)
  plan:run(2)
  print(('%.4f'):format(plan.results[1]:to 'cpu':tolist()[1]))
  -- where the compiler failed the functions are computed without it: say so
  local why = require('ridge.device').libraries('sim:0', true).why.nvrtc
  if why then print(why) end]]
local CONV = [[local ridge = require 'ridge'
  require('ridge.ffi.lib').rg_device_open(1)
  local counted = dofile 'tests/lua/counted.lua'
  require('ridge.ffi.lib').rg_device_modes_now().autotune = 2
  local x, w = ridge.ones(1, 1, 4, 4):to 'sim:0', ridge.ones(1, 1, 4, 4):to 'sim:0'
  print(x:conv2d(w):to 'cpu':item(), counted.now().plans)]]

-- What each of the three caches is, a program that fills it, and what that says without the file
-- and with it.
local CACHES = {
  { file = 'cublaslt.txt', environment = 'RG_SIM_BLAS_FAST=4',
    words = 'tests/lua/blas_child.lua file',
    again = 'heuristics 3, checks 0, algorithm 4\ndone\n',
    known = 'heuristics 0, checks 3, algorithm 4\ndone\n',
    partly = 'heuristics 1, checks 2, algorithm 4\ndone\n' },
  { file = 'cudnn.txt', environment = 'RIDGE_CUDNN=simulated', words = CONV,
    again = '16\t2\n', known = '16\t1\n' },
  { file = 'fused-*.bin', environment = 'RIDGE_NVRTC=simulated', words = CHAIN,
    again = '0.9640\n0 compiled\n', known = '0.9640\n1 compiled\n' },
}

describe('files that GPU libraries keep', function()
  local folder

  local function case(name, f)
    it(name, function()
      if not there then return pending 'no nvcc: the simulated GPU was not built' end
      f()
    end)
  end

  -- limited: no file may grow beyond 1024 bytes, as on a disk that is full
  local function run(cache, limited)
    local log = folder .. '/log'
    os.remove(log)
    local words = cache.words
    if words:find '\n' then
      put(folder .. '/program.lua', words)
      words = folder .. '/program.lua'
    end
    local said = output(("%s env XDG_CACHE_HOME='%s' RIDGE_GPU=%s RG_SIM_NVRTC_LOG='%s' %s "
      .. 'timeout 60 ./ridge %s'):format(limited and "trap '' XFSZ; prlimit --fsize=1024" or '',
      folder, SIMULATED, log, cache.environment, words))
    if cache.environment:find 'NVRTC' then
      said = said .. (read(log) and '0 compiled\n' or '1 compiled\n')
    end
    return said
  end

  local function path_of(cache)
    return (output(("ls '%s'/ridge/%s"):format(folder, cache.file)):gsub('\n', ''))
  end

  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    output('mkdir -p ' .. folder)
  end)
  after_each(function() output('rm -rf ' .. folder) end)

  for _, cache in ipairs(CACHES) do
    local name = ': ' .. cache.file

    case('are read by the next process, and nothing else is left' .. name, function()
      assert.equal(cache.again, run(cache))
      assert.equal(cache.known, run(cache))
      local text = read(path_of(cache))
      assert.equal(cache.known, run(cache))
      assert.equal(text, read(path_of(cache)))
      assert.is_nil(output('ls -A ' .. folder .. '/ridge'):find 'part')
    end)

    case('keep their mode and their links' .. name, function()
      assert.equal(cache.again, run(cache))
      local path = path_of(cache)
      local text = read(path)
      output(("mv '%s' '%s/real'; ln -s ../real '%s'"):format(path, folder, path))
      output(("ln '%s/real' '%s/twin'; chmod 640 '%s/real'"):format(folder, folder, folder))
      assert.equal(cache.known, run(cache))
      put(folder .. '/real', '')
      assert.equal(cache.again, run(cache))
      -- the same job or kernel; which algorithm was the fastest may differ from run to run
      assert.equal(text:sub(1, 16), read(folder .. '/twin'):sub(1, 16))
      assert.equal('640\n', output(("stat -c %%a '%s/real'"):format(folder)))
      assert.equal('symbolic link\n', output(("stat -c %%F '%s'"):format(path)))
      assert.equal(cache.known, run(cache))
    end)

    case('are whole again after they were cut off anywhere' .. name, function()
      assert.equal(cache.again, run(cache))
      local path = path_of(cache)
      local text = read(path)
      for _, length in ipairs { 0, 1, 10, #text - 20, #text - 1 } do
        put(path, text:sub(1, length))
        assert.equal(length > #text - 30 and cache.partly or cache.again, run(cache), length)
        assert.equal(cache.known, run(cache), length)
      end
    end)

    case('are no reason to wait where a FIFO stands there' .. name, function()
      assert.equal(cache.again, run(cache))
      local path = path_of(cache)
      output(("rm '%s'; mkfifo '%s'"):format(path, path))
      assert.equal(cache.again, run(cache))
      assert.equal('fifo\n', output(("stat -c %%F '%s'"):format(path)))
    end)

    case('are no error where they cannot be' .. name, function()
      assert.equal(cache.again, run(cache))
      local path = path_of(cache)
      for _, target in ipairs { '/dev/null', '/dev/full', '/dev/zero', folder, '/no/such/file' } do
        output(("ln -sfT '%s' '%s'"):format(target, path))
        assert.equal(cache.again, run(cache), target)
        assert.equal(target .. '\n', output(("readlink '%s'"):format(path)))
      end
      for _, device in ipairs { '/dev/null', '/dev/full', '/dev/zero' } do
        assert.equal('character special file\n', output('stat -c %F ' .. device))
      end
    end)
  end

  case('are what they were where the disk is full', function()
    local blas, dnn = CACHES[1], CACHES[2]
    assert.equal(blas.again, run(blas))
    local path = path_of(blas)
    local kept = read(path)
    assert.is_true(#kept > 1024)
    local less = kept:gsub('\n[^\n]*\n$', '\n')
    put(path, less)
    assert.equal(blas.partly, run(blas, true))
    assert.equal(less, read(path))
    assert.is_nil(output('ls -A ' .. folder .. '/ridge'):find 'part')
    -- one that is added to is gone on with in a line of its own
    assert.equal(dnn.again, run(dnn))
    path = path_of(dnn)
    kept = read(path)
    local damaged = ('x'):rep(1024 - 10)
    put(path, damaged)
    assert.equal(dnn.again, run(dnn, true))
    assert.equal(1024, #read(path))
    assert.equal(dnn.again, run(dnn))
    -- the same job, measured once more: which engine was the fastest may differ from run to run
    local before, added = damaged .. '\n' .. kept:sub(1, 9) .. '\n', read(path)
    assert.is_true(before == added:sub(1, #before))
    local hash = ('%x'):rep(16)
    local job = added:sub(#before + 1):match('^(' .. hash .. ') %d+ ' .. hash .. '\n$')
    assert.equal(kept:sub(1, 16), job)
    assert.equal(dnn.known, run(dnn))
  end)
end)
