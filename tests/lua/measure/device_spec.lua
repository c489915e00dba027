-- SPDX-License-Identifier: MIT
-- Measuring on a device, over the simulated one where it was built. Nothing here says how fast
-- anything is; what is looked at is that nobody takes the asking for the doing, that what disturbs
-- a GPU is seen, and that a simulated device is never taken for a GPU.

local SIMULATED = 'build/libridge_gpusim.so'
local CHILD = ' ./ridge tests/lua/measure/device_child.lua '
local FOLDER = os.tmpname()
os.remove(FOLDER)

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1'))
  local text = pipe:read('*a')
  pipe:close()
  return text
end

local function there(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local function missing()
  if not there(SIMULATED) then return pending 'no nvcc: the simulated GPU was not built' or true end
  os.execute('mkdir -p ' .. FOLDER)
  return false
end

-- Run a part of the child; it says what is wrong, then `done`.
local function part(name, environment)
  assert.equal('done\n', output(('RIDGE_GPU=%s %s'):format(SIMULATED, environment or '') .. CHILD
    .. name))
end

-- Build one of the stand-ins beside this file; its path.
local function built(source, name, flags)
  local path = FOLDER .. '/' .. name
  local said = output(('${CC:-cc} -shared -fPIC %s -o %s tests/lua/measure/%s'):format(flags or '',
    path, source))
  assert.equal('', said)
  return path
end

teardown(function() os.execute('rm -rf ' .. FOLDER) end)

describe('what may run anywhere', function()
  it('is simulated where a network is that is in use, or a device that has had memory', function()
    local device, world = require 'ridge.measure.device', require 'ridge.world'
    local simulated = world.simulated
    finally(function() world.simulated = simulated end)
    world.simulated = function() return true end
    assert.is_true(device.any_simulated())
    world.simulated = function() return false end
    if not os.getenv 'RIDGE_TEST_DEVICE' then assert.is_false(device.any_simulated()) end
  end)
end)

describe('a window on a device', function()
  for _, each in ipairs {
    { 'waits, whatever is timed and on whichever stream', 'waiting' },
    { 'makes a point that says which clock it was and that the device is simulated', 'points' },
    { 'is filled before, so that the device does not wait for the host', 'filled' },
    { 'leads to no verdict on a simulated device', 'verdict' },
  } do
    it(each[1], function()
      if missing() then return end
      part(each[2])
      part(each[2], 'RG_SIM_ORDER=rev')
    end)
  end
end)

describe('a device', function()
  it('has ceilings, which a simulated one does not keep', function()
    if missing() then return end
    part 'ceilings'
  end)

  it('needs a time of its own for each operation that is traced', function()
    if missing() then return end
    part 'profile'
  end)

  it('has no state where the management library is not', function()
    if missing() then return end
    part 'hidden'
  end)

  it('has a state that is told where it is', function()
    if missing() then return end
    built('fake_nvml.c', 'libnvidia-ml.so.1')
    local library = 'LD_LIBRARY_PATH=' .. FOLDER .. ' '
    part('state', library)
    part('broken', library .. 'FAKE_NVML_CODE=9')
  end)

  it('is flagged when it is held back, and not when it is idle or set so', function()
    if missing() then return end
    built('fake_nvml.c', 'libnvidia-ml.so.1')
    local library = 'LD_LIBRARY_PATH=' .. FOLDER .. ' '
    for reasons, words in pairs { [4] = 'power', [8] = 'hardware', [0x20] = 'heat',
      [0x40] = 'heat', [0x80] = 'brake', [0x84] = 'power brake' } do
      part('held', ("%sFAKE_NVML_REASONS=%d WANTED_FLAG=1 WANTED_WORDS='%s'"):format(library,
        reasons, words))
    end
    for reasons, words in pairs { [1] = 'idle', [2] = 'setting', [0x10] = 'setting',
      [0x100] = 'setting', [0x4000] = 'other' } do
      part('held', ("%sFAKE_NVML_REASONS=%d WANTED_FLAG=0 WANTED_WORDS='%s'"):format(library,
        reasons, words))
    end
  end)

  it('names its work for an attached profiler, and only then', function()
    if missing() then return end
    local headers = (os.getenv 'CUDA_HOME' or '/usr/local/cuda') .. '/include'
    if not there(headers .. '/nvtx3/nvToolsExt.h') then return pending 'no NVTX headers' end
    local profiler = built('fake_profiler.c', 'profiler.so', '-I' .. headers)
    assert.equal('<outer<matmul>\n>\ndone\n', output('NVTX_INJECTION64_PATH=' .. profiler
      .. ' RIDGE_GPU=' .. SIMULATED .. CHILD .. 'names'))
    part 'names'
  end)
end)

-- A landscape as small as it gets: dense layers and sketched ones, five points.  (A simulated
-- device takes long for what `--quick` wants of a point, the longer the more runs beside it.)
local function landscape(db, environment)
  return output(('%s RIDGE_GPU=%s RIDGE_LOCKS=%s ./ridge recipes/landscape.lua --device sim:0 '
    .. '--smoke --forms stored --layers dense,sketched --db %s --out %s'):format(environment or '',
    SIMULATED, FOLDER, db, FOLDER))
end

local function read(path, f)
  local st = require('ridge.store').open(path, 'read')
  local ok, result = pcall(f, st.db)
  st:close()
  if not ok then error(result, 0) end
  return result
end

describe('a sweep on a device', function()
  it('keeps who it was, and says that it is simulated', function()
    if missing() then return end
    local db = FOLDER .. '/a.db'
    local text = landscape(db)
    assert.matches('sim:0 is simulated: the results are right', text)
    assert.matches('measured on a simulated device: these times say nothing of any GPU, so there '
      .. 'is no verdict', text)
    local device = read(db, function(q) return q:row 'SELECT * FROM main.device' end)
    assert.equal('cuda', device.kind)
    assert.equal('simulated-0', device.uuid)
    assert.matches('^simulated device', device.name)
    assert.matches('"simulated":true', device.facts)
    local vars = read(db, function(q) return q:value 'SELECT vars FROM main.env' end)
    assert.matches('"device_simulated":"yes"', vars)
    assert.matches('"device_driver":"%d+%.%d"', vars)
    assert.matches('"device_modes":"autotune=%d deterministic=%d tf32=%d vendor=%d"', vars)
    for _, row in ipairs(read(db, function(q)
      return q:query "SELECT flags, grade, clock FROM main.timing WHERE cache = 'warm'"
    end)) do
      assert.matches('SIMULATED', row.flags)
      assert.equal('D', row.grade)
      assert.equal('device events', row.clock)
    end
    -- five points in five passes
    assert.equal(25, read(db, function(q)
      return q:value "SELECT count(*) FROM main.metric WHERE name = 'fwd_issue_ns' AND value > 0"
    end))
    assert.equal(25, read(db, function(q)
      return q:value "SELECT count(*) FROM main.metric WHERE name = 'peak_bytes' AND value > 0"
    end))
  end)

  it("keeps its libraries' versions: rows before and after an update are not compared", function()
    if missing() then return end
    local function env(variables)
      return output(('%s RIDGE_GPU=%s ./ridge -e \'%s\''):format(variables, SIMULATED, ([[
        local facts = require("ridge.sweep.device").lab("sim:0").facts()
        local st = require("ridge.store").open("%s/versions.db", "write")
        local vars = facts.env.vars
        print(st:environment(facts).env_id, vars.device_runtime, vars.device_cublaslt,
          vars.device_cudnn)
        st:close()]]):format(FOLDER)))
    end
    local before, dnn = 'RG_SIM_BLAS_VERSION=130100', 'RIDGE_CUDNN=simulated'
    assert.matches('^1\t%d+%.%d\t13%.1%.0\tnil\n$', env(before))
    assert.matches('^1\t', env(before))
    assert.matches('^2\t%d+%.%d\t13%.2%.1\tnil\n$', env 'RG_SIM_BLAS_VERSION=130201')
    assert.matches('^3\t%d+%.%d\t13%.1%.0\t9%.%d+%.%d+\n$', env(before .. ' ' .. dnn))
    assert.matches('^1\t', env(before))
  end)

  it('is not one of the CPU: stored rows are kept apart, and are not compared', function()
    if missing() then return end
    part('stored', ('RIDGE_LOCKS=%s FOLDER=%s'):format(FOLDER, FOLDER))
  end)

  it('keeps what ran out of the device\'s memory as that', function()
    if missing() then return end
    local db = FOLDER .. '/oom.db'
    landscape(db, 'RG_SIM_OOM_AFTER=3')
    local rows = read(db, function(q)
      return q:query('SELECT state, message FROM main.trial t JOIN main.attempt a ON a.id = '
        .. 't.best_attempt')
    end)
    assert.equal(5, #rows)
    for _, row in ipairs(rows) do
      assert.equal('oom', row.state)
      assert.matches('memory', row.message)
    end
  end)
end)

describe('a picture', function()
  it('of a simulated device says so, whatever the device is called', function()
    local rows = { { x = 1, y = 1, fwd = 5, grade = 'D', flags = 'SIMULATED', state = 'ok' },
                   { x = 2, y = 1, fwd = 6, grade = 'D', flags = 'SIMULATED', state = 'ok' },
                   { x = 1, y = 2, fwd = 7, grade = 'D', flags = 'SIMULATED', state = 'ok' },
                   { x = 2, y = 2, fwd = 8, grade = 'D', flags = 'SIMULATED', state = 'ok' } }
    local path = os.tmpname() .. '.png'
    require('ridge.plot').draw('map', rows, { x = 'x', y = 'y', z = 'fwd', device = 'H200' })
      :save(path)
    local texts = require('ridge.plot.png').read_texts(path)
    os.remove(path)
    assert.matches('H200: a simulated device', texts['ridge:device'])
  end)
end)
