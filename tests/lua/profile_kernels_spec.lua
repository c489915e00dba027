-- SPDX-License-Identifier: MIT
-- Kernels of a GPU in a profile, over the simulated one and the stand-in for CUPTI where they were
-- built: what was launched is told as it was, of what asked for it; what is missing is said, and so
-- is why nothing can be had. Nothing here says anything of NVIDIA's own library.

local canonical = require 'ridge.store.canonical'
local json_schema = dofile 'tests/lua/json_schema.lua'

local SIMULATED, CUPTI = 'build/libridge_gpusim.so', 'build/libfakecupti.so'
local CHILD = ' ./ridge tests/lua/profile_kernels_child.lua '
local FILE = os.tmpname()
os.remove(FILE)

local PRIVILEGES = 'cuptiActivityEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35): this user may '
  .. 'not profile the GPU: the driver allows it to an administrator, or to everybody with '
  .. 'NVreg_RestrictProfilingToAdminUsers=0'

local function there(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local function missing()
  if there(SIMULATED) and there(CUPTI) then return false end
  return pending 'no nvcc: the simulated GPU was not built' or true
end

local function output(name, environment)
  local pipe = assert(io.popen(('RIDGE_GPU=%s RIDGE_CUPTI=%s RIDGE_CUDNN=none XDG_CACHE_HOME= %s'
    .. '%s%s 2>&1'):format(SIMULATED, CUPTI, environment or '', CHILD, name)))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

-- Run a part of the child; it says what is wrong, then `done`.
local function part(name, environment) assert.equal('done\n', output(name, environment)) end

local function contents(path)
  local file = assert(io.open(path))
  local text = file:read '*a'
  file:close()
  return text
end

after_each(function() os.remove(FILE) end)

describe('kernels of a profile', function()
  for _, each in ipairs {
    { 'are those that were launched, each of the operation and module that asked', 'told' },
    { 'come by records of older libraries too', 'told', 'RG_CUPTI_VERSION=26' },
    { 'come in any order', 'told', 'RG_CUPTI_MIXED=1 RG_SIM_ORDER=rand:3' },
    { 'come in many buffers', 'told', 'RG_CUPTI_RECORDS=2' },
    { 'are told whatever the device did first', 'told', 'RG_SIM_ORDER=rev' },
    { 'have times on the clock of the profile', 'times' },
    { 'have them by a clock that runs too fast as well', 'times', 'RG_CUPTI_FAST=1.5' },
    { 'are those of the steps that count', 'schedule' },
    { 'are none of an operation that failed', 'failing' },
    { 'are those of the steps of a plan', 'steps' },
    { 'are recorded for one profile at a time', 'twice' },
    { 'come with counters', 'counters' },
    { 'are sums of their runs', 'sums' },
    { 'are counted where there is no room', 'room' },
    { 'are counted where the library dropped them', 'dropped', 'RG_CUPTI_RECORDS=2' },
    { 'may have no time', 'untimed', 'RG_CUPTI_UNTIMED=3 TRACE=' .. FILE },
    { 'of few registers: all warps', 'occupancy', 'WANTED=1' },
    { 'of many registers: few warps', 'occupancy', 'RG_CUPTI_REGISTERS=255 WANTED=0.125' },
  } do
    it(each[1], function()
      if missing() then return end
      part(each[2], each[3])
    end)
  end

  it('are told in a table', function()
    local told = require('ridge.profile.kernels').told
    local list = {
      { kind = 'kernel', name = 'void (anonymous namespace)::k_fold<float, 4>(view<float>, int)',
        op = 'sum', module = 'a.3', calls = 7, ns = 2.5e6, share = 0.25, registers = 40,
        static_bytes = 1024, dynamic_bytes = 2048, occupancy = 0.75, grid = { 4, 1, 3 },
        block = { 256, 1, 1 } },
      { kind = 'copy', name = 'host to device', calls = 1, ns = 0, share = 0, bytes = 4096 },
      { kind = 'fill', name = 'fill', calls = 2, ns = 10, share = 0, bytes = 8 },
    }
    assert.equal([[
kernel          operation  module  calls    time   share  registers  shared  occupancy  blocks
k_fold          sum        a.3         7  2.5 ms  25.0 %         40    3 KB       75 %  4x1x3 of 256
host to device                         1    0 ns   0.0 %                                4 KB
(and 1 row more)]], (told({ ns = 1e7 }, list, 2):gsub('\226\128\175', ' ')))
  end)

  it('cost nothing where nobody asks: the library is not opened', function()
    if missing() then return end
    part('off', 'RG_CUPTI_LOG=' .. FILE)
  end)

  it('say what could not be read of the library', function()
    if missing() then return end
    part('note', "RG_CUPTI_STRAY=77 WANTED='records of CUPTI are of a kind that is not known'")
    part('note', "RG_CUPTI_CUT=1 WANTED='1 buffer of CUPTI could not be read to the end: what they "
      .. "held is missing'")
  end)

  for _, each in ipairs {
    { 'another profiler', 'RG_CUPTI_REFUSE=Subscribe:39', 'cuptiSubscribe: CUPTI_ERROR_MULTIPLE_'
      .. 'SUBSCRIBERS_NOT_SUPPORTED (39): another profiler is attached to this process, and there '
      .. 'can be one only' },
    { 'no privileges', 'RG_CUPTI_REFUSE_KIND=10', PRIVILEGES },
    { 'no memory', 'RG_CUPTI_REFUSE=ActivityRegisterCallbacks:8', 'cuptiActivityRegisterCallbacks: '
      .. 'CUPTI_ERROR_OUT_OF_MEMORY (8): it is out of memory' },
    { 'an error without a name', 'RG_CUPTI_REFUSE=Subscribe:4711',
      'cuptiSubscribe: an error of its own (4711)' },
    { 'records that do not come', 'RG_CUPTI_REFUSE=ActivityFlushAll:8',
      'cuptiActivityFlushAll: CUPTI_ERROR_OUT_OF_MEMORY (8): it is out of memory' },
    { 'an older version', 'RG_CUPTI_VERSION=17',
      CUPTI .. ' is of version 17; 18 (CUDA 12.0) to 139999 are known' },
    { 'a later version', 'RG_CUPTI_VERSION=140000',
      CUPTI .. ' is of version 140000; 18 (CUDA 12.0) to 139999 are known' },
    { 'no version', 'RG_CUPTI_REFUSE=GetVersion:999',
      'build/libfakecupti.so does not say its version (code 999)' },
    { 'no such library', 'RIDGE_CUPTI=none', 'RIDGE_CUPTI says none' },
    { 'a library of something else', 'RIDGE_CUPTI=' .. SIMULATED,
      SIMULATED .. ' has no function cuptiGetVersion' },
    { 'no file', 'RIDGE_CUPTI=nowhere.so',
      'nowhere.so: cannot open shared object file: No such file or directory' },
    { 'a device that is none of its own', 'RIDGE_CUPTI=',
      "the simulated device is none of CUPTI's" },
  } do
    it('are not there, and why: ' .. each[1], function()
      if missing() then return end
      part('refused', ("%s WANTED='%s'"):format(each[2], (each[3]:gsub("'", [['\'']]))))
    end)
  end

  it('leave the library as it was: what is switched on is switched off, once each', function()
    if missing() then return end
    part('again', 'RG_CUPTI_LOG=' .. FILE)
    local n = {}
    for line in contents(FILE):gmatch '[^\n]+' do n[line] = (n[line] or 0) + 1 end
    assert.equal(2, n['Subscribe 1'])
    assert.equal(2, n['Unsubscribe 0'])
    assert.is_nil(n['empty 0'])
    assert.equal(4, n['ActivityFlushAll 1']) -- before and behind switching off
    for _, kind in ipairs { 1, 2, 4, 5, 10, 22, 39 } do
      assert.equal(2, n['ActivityEnable ' .. kind], kind)
      assert.equal(2, n['ActivityDisable ' .. kind], kind)
    end
  end)

  it('that are refused half-way leave nothing on', function()
    if missing() then return end
    part('refused', ("RG_CUPTI_REFUSE_KIND=2 RG_CUPTI_LOG=%s WANTED='%s'"):format(FILE,
      PRIVILEGES))
    local text = contents(FILE)
    for _, kind in ipairs { 1, 10, 22 } do
      assert.matches('ActivityDisable ' .. kind .. '\n', text, 1, true)
    end
    assert.matches('Unsubscribe 0\n', text, 1, true)
  end)

  it('are on tracks of a trace, each with an arrow from its call', function()
    if missing() then return end
    local text = output('trace', 'TRACE=' .. FILE)
    local runs = assert(tonumber(text:match '^runs (%d+)\ndone\n$'), text)
    local trace = canonical.decode(contents(FILE))
    assert.is_nil(json_schema.against(canonical.decode(contents
      'tests/fixtures/trace.schema.json'), trace))
    local n, arrows, names = { kernel = 0, copy = 0 }, { s = 0, f = 0 }, {}
    for _, event in ipairs(trace.traceEvents) do
      if event.name == 'thread_name' then names[event.args.name] = event.tid end
    end
    local track = assert(names['sim:0 kernels of stream 7'], text)
    for _, event in ipairs(trace.traceEvents) do
      if event.ph == 'X' and event.tid == track then
        n[event.cat] = n[event.cat] + 1
        assert.is_true(event.args.operation ~= nil and event.dur > 0)
        if event.cat == 'kernel' then
          assert.equal(3, #event.args.grid)
          assert.equal(32, event.args.registers)
        end
      end
      if event.cat == 'launch' then arrows[event.ph] = arrows[event.ph] + 1 end
    end
    assert.equal(runs, n.kernel + n.copy)
    assert.is_true(n.kernel > 0 and n.copy == 2)
    assert.same({ s = runs, f = runs }, arrows)
  end)
end)
