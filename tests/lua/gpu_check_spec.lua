-- SPDX-License-Identifier: MIT
-- scripts/gpu-check where there is no GPU, and tried on the simulated one: it runs what it can,
-- skips the rest visibly, and calls nothing a result that is none.
local SIMULATED = 'build/libridge_gpusim.so'

local function run(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

local function row(text, step)
  return text:match('\n| ' .. step .. ' *| (%a+) *|[^|]*|([^\n]*)\n')
end

local function is_simulated()
  local file = io.open(SIMULATED)
  if file then file:close() end
  return file ~= nil
end

-- A folder of programs that are called in place of those of a machine with a GPU.
local function tools(list)
  local folder = os.tmpname()
  os.remove(folder)
  assert(run('mkdir -p ' .. folder) == 'status 0\n')
  for name, text in pairs(list) do
    local file = assert(io.open(folder .. '/' .. name, 'w'))
    file:write('#!/bin/sh\n' .. text .. '\n')
    file:close()
    run('chmod +x ' .. folder .. '/' .. name)
  end
  return folder
end

-- What doctor would say of a GPU; the kernels are the simulator's.
local DOCTOR = [['ridge      0.1.0
driver     CUDA 13.0
cuda:0     NVIDIA None, 1.0 GB, 1.0 GB free, capability 9.0, 1 units
runtime    CUDA 13.0
cublasLt   13.0.2
cudnn      9.19.0']]

describe('scripts/gpu-check', function()
  local kept
  before_each(function() kept = run 'find results -newer build/ridge -type f | sort' end)
  after_each(function()
    assert.equal(kept, run 'find results -newer build/ridge -type f | sort')
  end)

  it('skips visibly what needs a GPU where there is none', function()
    if os.execute 'nvidia-smi -L >/dev/null 2>&1' == 0 then return pending 'there is a GPU' end
    local text = run 'RIDGE_GPU=/no/such.so scripts/gpu-check'
    assert.matches('status 0\n$', text)
    assert.equal('passed', (row(text, 'facts')))
    assert.equal('passed', (row(text, 'probe')))
    assert.equal(is_simulated() and 'passed' or 'skipped', (row(text, 'simulated')))
    for _, step in ipairs { 'load', 'beliefs', 'ceilings', 'ops', 'gradients', 'agree', 'memcheck',
      'racecheck', 'synccheck', 'initcheck', 'bench', 'torch', 'ncu', 'description' } do
      local result, note = row(text, step)
      assert.equal('skipped', result, step)
      assert.matches('there is no GPU', note)
    end
    assert.matches('\nNo GPU: only the steps that need none were run.\n', text)
  end)

  it('can be tried on the simulated GPU, and says so', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    local text = run(('OUT=results/gpu/simulated RIDGE_GPU=%s RIDGE_TEST_EVERY=200 '
      .. 'scripts/gpu-check load beliefs ceilings gradients agree bench memcheck description')
      :format(SIMULATED))
    assert.matches('status 0\n$', text)
    for _, step in ipairs { 'load', 'beliefs', 'ceilings', 'gradients', 'agree', 'bench',
      'description' } do
      assert.equal('passed', (row(text, step)), step)
    end
    for _, step in ipairs { 'gradients', 'agree' } do
      assert.matches('\nmemory of the device holds nan when it is handed out\n',
        run('sed -n 1,5p build/gpu-check/' .. step .. '.log'), step)
    end
    assert.equal('skipped', (row(text, 'memcheck')))
    assert.matches('SIMULATED: this tries the script', text)
    assert.matches('\nSIMULATED: nothing here was measured on a GPU.\n', text)
    assert.is_nil(text:find '"us"') -- no time of a simulated case
    assert.matches('{"case": "transformer_12_step_bf16", "tiny": true}', text)
  end)

  -- The programs are empty: what is tried is how they are called, and what is said of them.
  it('calls the programs of a machine with a GPU as they want it', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    local folder = tools {
      ['compute-sanitizer'] = 'echo "called $*"; while [ "$1" != ./ridge ]; do shift; done; "$@"',
      ncu = 'echo "==ERROR== ERR_NVGPUCTRPERM: no permission"; exit 1',
      ['nvidia-smi'] = 'case $* in *driver_version*) echo 580.95.05;; *) echo GPU 0: none;; esac',
      python3 = 'case $* in *is_available*) exit 0;; *libcudnn*) echo /a/folder;;'
        .. ' *torch_bench*) echo "{\\"torch\\": \\"2.11\\"}";; esac',
      ldconfig = ':',
    }
    local out = folder .. '/out'
    local text = run(('PATH=%s:$PATH CUDA_HOME=/none OUT=%s GPU_CHECK_DOCTOR=%s RIDGE_GPU=%s '
      .. 'scripts/gpu-check facts memcheck racecheck initcheck synccheck torch ncu'):format(folder,
      out, DOCTOR, SIMULATED))
    for _, step in ipairs { 'memcheck', 'racecheck', 'initcheck', 'synccheck' } do
      local result, note = row(text, step)
      assert.equal('passed', result, text)
      assert.matches('^ %d+ passed, 0 failed', note)
      assert.matches('called %-%-tool ' .. step .. ' %-%-error%-exitcode 9 ./ridge',
        run(('cat %s/%s.log'):format(out, step)))
    end
    assert.equal('passed', (row(text, 'torch')))
    local result, note = row(text, 'ncu')
    assert.equal('skipped', result)
    assert.matches('nobody but root', note)
    assert.matches('\nLD_LIBRARY_PATH [^\n]*/a/folder\n', run(('cat %s/facts.log'):format(out)))
    -- what the numbers are of
    local last = run(('cat %s/table.md'):format(out))
    for _, words in ipairs { '\nNVIDIA None, driver 580.95.05, CUDA 13.0\n', '{"torch": "2.11"}\n',
      '\n%- gpu%-check facts memcheck [^\n]* ncu, seed %d+, begun %d%d%d%d%-',
      'cublasLt 13.0.2; cuDNN 9.19.0\n' } do
      assert.matches(words, last)
    end
    run('rm -r ' .. folder)
  end)

  it('takes less than ten minutes', function()
    local all = tonumber(run("sed -n 's/^all=//p' scripts/gpu-check"):match '%d+')
    assert.is_true(all < 600)
  end)

  it('runs specs without busted, and sees what fails in them', function()
    local path = os.tmpname()
    local function said(body, options)
      local file = assert(io.open(path, 'w'))
      file:write(body)
      file:close()
      return run(('./ridge scripts/gpu/specs.lua %s %s'):format(path, options or ''))
    end
    local BODY = [[
local order = {}
describe('a', function()
  setup(function() order[#order + 1] = 'setup' end)
  before_each(function() order[#order + 1] = 'before' end)
  after_each(function() order[#order + 1] = 'after' end)
  it('right', function() assert.are.same({ 1, { 2 } }, { 1, { 2 } }) assert(true) end)
  describe('b', function()
    before_each(function() order[#order + 1] = 'inner' end)
    it('last', function()
      assert.are.equal('setup before after before inner', table.concat(order, ' '))
    end)
  end)
  it('wrong', function() %s end)
end)
]]
    assert.equal('3 passed, 0 failed\nstatus 0\n', said(BODY:format ''))
    for _, wrong in ipairs { 'assert.are.equal(1, 2)', 'assert.are.same({ 1 }, { 1, 2 })',
      'assert.are.same({ a = 1, b = 2 }, { a = 1 })', 'assert.is_true(1)', 'assert.is_nil(false)',
      'assert.is_truthy(nil)', 'assert(false, "no")', 'error "no"', 'assert.is_unknown(1)' } do
      local text = said(BODY:format(wrong))
      assert.matches('\n2 passed, 1 failed\nstatus 1\n$', text)
      assert.matches('not ok a wrong\n', text)
    end
    assert.equal('1 passed, 0 failed\nstatus 0\n', said(BODY:format 'error "no"', '--filter right'))
    assert.equal('0 passed, 0 failed\nstatus 1\n', said(BODY:format '', '--filter nothing'))
    assert.matches('0 passed, 1 failed\nstatus 1\n$', said 'this is no Lua')
    os.remove(path)
  end)

  it('fails where a step fails or is not known', function()
    assert.matches('there is no step nothing\nstatus 2\n$', run 'scripts/gpu-check nothing')
    if not is_simulated() then return end
    local text = run(('RIDGE_GPU=%s RG_SIM_OOM_AFTER=0 scripts/gpu-check load bench'):format(
      SIMULATED))
    local result, note = row(text, 'bench')
    assert.equal('FAILED', result)
    assert.matches('exit code 1, see build/gpu%-check/bench.log: .*"error"', note)
    assert.matches('status 1\n$', text)
  end)
end)
