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
  -- but for a database that another file's commands make there meanwhile
  local RESULTS = "find results -newer build/ridge -type f ! -name 'ridge.db*' | sort"
  before_each(function() kept = run(RESULTS) end)
  after_each(function() assert.equal(kept, run(RESULTS)) end)

  it('skips visibly what needs a GPU where there is none', function()
    if os.execute 'nvidia-smi -L >/dev/null 2>&1' == 0 then return pending 'there is a GPU' end
    local text = run 'RIDGE_GPU=/no/such.so scripts/gpu-check'
    assert.matches('status 0\n$', text)
    assert.equal('passed', (row(text, 'facts')))
    assert.equal(is_simulated() and 'passed' or 'skipped', (row(text, 'simulated')))
    text = text .. run 'RIDGE_GPU=/no/such.so scripts/gpu-check second'
      .. run 'RIDGE_GPU=/no/such.so scripts/gpu-check third'
    for _, step in ipairs { 'start', 'kernels', 'ceilings', 'bench', 'torch', 'agree', 'ops',
      'gradients', 'attention', 'gemm', 'scaled', 'features', 'beliefs', 'json', 'compiled',
      'cupti', 'memcheck', 'racecheck', 'ncu' } do
      local result, note = row(text, step)
      assert.equal('skipped', result, step)
      assert.matches('there is no GPU', note)
    end
    assert.matches('\nNo GPU: only the steps that need none were run.\n', text)
  end)

  it('can be tried on the simulated GPU, and says so', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    run 'rm -rf build/gpu-check'
    local steps = { 'start', 'kernels', 'ceilings', 'bench', 'agree', 'gradients', 'features',
      'beliefs', 'cupti' }
    local text = run(('OUT=results/gpu/simulated RIDGE_GPU=%s RIDGE_TEST_EVERY=200 '
      .. 'scripts/gpu-check %s memcheck'):format(SIMULATED, table.concat(steps, ' ')))
    assert.matches('status 0\n$', text)
    for _, step in ipairs(steps) do assert.equal('passed', (row(text, step)), step) end
    for _, step in ipairs { 'gradients', 'agree' } do
      assert.matches('\nmemory of the device holds nan when it is handed out\n', '\n'
        .. run(('tar -xOf build/gpu-check/logs.tar.gz ./%s.log'):format(step)), step)
    end
    assert.equal('skipped', (row(text, 'memcheck')))
    assert.matches('SIMULATED: this tries the script', text)
    assert.matches('\nSIMULATED: nothing here was measured on a GPU.\n', text)
    assert.is_nil(text:find '"us"') -- no time of a simulated case
    assert.matches('{"case": "transformer_12_step_bf16", "tiny": true}', text)
    for _, f in ipairs { 'F13', 'F23', 'F66', 'F96', 'F200', 'F205', 'F206', 'F207', 'F208',
      'F209' } do
      local result = text:match('\n| ' .. f .. ' | ([^|]*) | [^|]+ |\n')
      local untimed = f == 'F23' or f == 'F209'
      assert.equal(untimed and 'not timed' or 'held', result, f)
    end
    -- what is brought home
    assert.equal('bench.jsonl\nlogs.tar.gz\ntable.md\nstatus 0\n', run 'ls build/gpu-check')
    run 'rm -rf build/gpu-check'
  end)

  it('says of an option that changed nothing that it failed', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    local text = run(('RG_SIM_GRAPHS=0 RIDGE_GPU=%s ./ridge scripts/gpu/features.lua --tiny')
      :format(SIMULATED))
    assert.matches('\nF66 FAILED: ', text)
    assert.matches('\nF208 held: ', text)
    assert.matches('status 1\n$', text)
  end)

  it('brings at most eight files, whatever was called before', function()
    local names = {}
    for line in io.lines 'scripts/gpu-check' do
      for name in line:gsub('^%s*#.*', ''):gmatch '%$out/([%w_.$]+)' do names[name] = true end
    end
    -- cp device.json there; $name is one of three kernels
    assert.same({ ['table.md'] = true, ['logs.tar.gz'] = true, ['bench.jsonl'] = true,
      ['torch.jsonl'] = true, ['$name'] = true }, names)
  end)

  it('names the kernel that faults, and goes on behind it', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    local text = run(('RG_SIM_FAULT=k_softmax RIDGE_GPU=%s RIDGE_TEST_EVERY=2 '
      .. 'scripts/gpu-check kernels'):format(SIMULATED))
    assert.matches('status 1\n$', text)
    assert.matches('not ok gpu/softmax.cu: softmax agrees with its definition', text)
    assert.matches('blocking: [^\n]*softmax: an illegal memory access was encountered', text)
    assert.matches('\ngpu/softmax.cu: %d+ passed, [1-9]%d* failed\n', text)
    assert.matches('\ngpu/norm.cu%+norm_back.cu: %d+ passed, 0 failed\n', text)
    run 'rm -rf build/gpu-check'
  end)

  -- The programs are empty: what is tried is how they are called, and what is said of them.
  it('calls the programs of a machine with a GPU as they want it', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    local folder = tools {
      ['compute-sanitizer'] = 'echo "called $*"; while [ "$1" != ./ridge ]; do shift; done; "$@"',
      ncu = 'echo "called $*"; echo "==ERROR== ERR_NVGPUCTRPERM: no permission"; exit 1',
      ['nvidia-smi'] = 'case $* in *driver_version*) echo 580.95.05;; *) echo GPU 0: none;; esac',
      python3 = 'case $* in *is_available*) exit 0;; *libcudnn*) echo /a/folder;;'
        .. ' *libnvrtc*) echo /another/folder;;'
        .. ' *--compiled*) echo "{\\"case\\": \\"copy_compiled\\", \\"us\\": 50.0}";;'
        .. ' *torch_bench*) echo "{\\"torch\\": \\"2.11\\"}";; esac',
      ldconfig = ':',
    }
    local out = folder .. '/out'
    local function called(what)
      return run(('PATH=%s:$PATH CUDA_HOME=/none OUT=%s GPU_CHECK_DOCTOR=%s RIDGE_GPU=%s '
        .. 'scripts/gpu-check %s'):format(folder, out, DOCTOR, SIMULATED, what))
    end
    local function log(step)
      return run(('tar -xOf %s/logs.tar.gz ./%s.log'):format(out, step))
    end
    -- what was timed before is compared, and compiled cases take the place of older ones
    run(('mkdir -p %s; echo \'{"case": "copy", "us": 40.0, "gb_s": 4}\' >%s/bench.jsonl'):format(
      out, out))
    local text = called 'facts torch compiled compiled ncu racecheck'
    assert.matches('\n| copy | 40.0 |  |  | 50.0 | 0.80 | 100 %% |\n',
      run(('cat %s/table.md'):format(out)))
    assert.equal('{"torch": "2.11"}\n{"case": "copy_compiled", "us": 50.0}\nstatus 0\n',
      run(('cat %s/torch.jsonl'):format(out)))
    assert.equal('passed', (row(text, 'torch')))
    local result, note = row(text, 'racecheck')
    assert.equal('passed', result, text)
    assert.matches('^ %d+ passed, 0 failed', note)
    assert.matches('called %-%-tool racecheck %-%-error%-exitcode 9 ./ridge', log 'racecheck')
    assert.matches('%-%-own', log 'racecheck')
    result, note = row(text, 'ncu')
    assert.equal('skipped', result)
    assert.matches('nobody but root', note)
    assert.matches('%-%-clock%-control none', log 'ncu')
    -- cuDNN finds NVRTC by name
    assert.matches('\nLD_LIBRARY_PATH [^\n]*/a/folder:/another/folder\n', log 'facts')
    -- what the numbers are of
    local last = run(('cat %s/table.md'):format(out))
    for _, words in ipairs { '\nNVIDIA None, driver 580.95.05, CUDA 13.0\n', '{"torch": "2.11"}\n',
      '\n%- gpu%-check facts torch compiled compiled ncu racecheck, seed %d+, begun %d%d%d%d%-',
      'cublasLt 13.0.2; cuDNN 9.19.0\n' } do
      assert.matches(words, last)
    end
    -- what failed in the call before is what memcheck sees
    local before = 'not ok gpu/softmax.cu: softmax gives the same bits when it is replayed'
    run(('mkdir %s/l; echo "%s" >%s/l/kernels.log; tar -czf %s/logs.tar.gz -C %s/l .'):format(out,
      before, out, out, out))
    text = called 'memcheck'
    assert.matches('^ 1 passed, 0 failed', select(2, row(text, 'memcheck')))
    assert.matches('called %-%-tool memcheck', log 'memcheck')
    assert.is_true(#log 'kernels' > 20) -- it is still there
    run('rm -r ' .. folder)
  end)

  it('adds up what each call may take', function()
    local text = run 'scripts/gpu-check --dry'
    assert.matches('status 0\n$', text)
    local n = 0
    for sum in text:gmatch '%a+: (%d+) s of 540: facts ' do
      n = n + 1
      assert.is_true(tonumber(sum) <= 540)
    end
    assert.equal(3, n)
    local folder = os.tmpname()
    os.remove(folder)
    run(('mkdir -p %s/scripts; sed "s/\\[agree\\]=[0-9]*/[agree]=200/" scripts/gpu-check '
      .. '>%s/scripts/gpu-check'):format(folder, folder))
    assert.matches('first: %d+ s .*status 1\n$', run(('bash %s/scripts/gpu-check --dry'):format(
      folder)))
    run('rm -r ' .. folder)
  end)

  it('ends every step that does not end by itself', function()
    local text = ''
    for _, call in ipairs { 'first', 'second', 'third' } do
      text = text .. run(('GPU_CHECK_SLEEP=1000 GPU_CHECK_LIMIT=1 RIDGE_GPU=/no/such.so '
        .. 'scripts/gpu-check %s'):format(call))
    end
    local n = 0
    for step, result, note in text:gmatch '\n| (%a+) *| (%a+) *|[^|]*|([^\n]*)' do
      n = n + (step == 'step' and 0 or 1)
      assert.equal(step == 'step' and 'result' or 'FAILED', result)
      assert.matches(step == 'step' and '' or 'more than 1 s', note)
    end
    assert.equal(23, n) -- 9 of the first without a GPU, 9 and 5
    run 'rm -rf build/gpu-check'
  end)

  -- The limits are those of a GPU; a busy processor that simulates one is not to fail by them.
  it('gives the simulated GPU ten times as long', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    local folder = tools {}
    run(('mkdir -p %s/scripts/gpu; sed "s/\\[start\\]=[0-9]*/[start]=3/" scripts/gpu-check '
      .. '>%s/scripts/gpu-check; chmod +x %s/scripts/gpu-check; echo "print(1)" '
      .. '>%s/scripts/gpu/start.lua; ln -s $PWD/ridge %s/ridge; ln -s $PWD/build %s/build'):format(
      folder, folder, folder, folder, folder, folder))
    local function start(doctor)
      return row(run(('GPU_CHECK_SLEEP=4 OUT=%s/out RIDGE_GPU=%s %s %s/scripts/gpu-check start')
        :format(folder, SIMULATED, doctor, folder)), 'start')
    end
    assert.equal('passed', (start ''))
    local result, note = start('GPU_CHECK_DOCTOR=' .. DOCTOR)
    assert.equal('FAILED', result)
    assert.matches('more than 3 s', note)
    run('rm -r ' .. folder)
    run 'rm -rf build/gpu-check'
  end)

  it('stops where copy and product are far below what the card does', function()
    if not is_simulated() then return pending 'no nvcc: the simulated GPU was not built' end
    local folder = tools {}
    run(('mkdir -p %s/scripts/gpu; cp scripts/gpu-check %s/scripts'):format(folder, folder))
    local rates = [[print('{"case": "copy", "us": 1, "gb_s": %s}')
print('{"case": "product_8192_bf16", "us": 1, "tflops": %s}')]]
    run(('ln -s $PWD/ridge %s/ridge'):format(folder))
    for _, case in ipairs { { 4000, 700, 'passed' }, { 1000, 700, 'FAILED' },
      { 4000, 100, 'FAILED' } } do
      local file = assert(io.open(folder .. '/scripts/gpu/bench.lua', 'w'))
      file:write(rates:format(case[1], case[2]))
      file:close()
      local text = run(('GPU_CHECK_CEILINGS="4300 770" OUT=%s/out GPU_CHECK_DOCTOR=%s RIDGE_GPU=%s '
        .. '%s/scripts/gpu-check ceilings torch'):format(folder, DOCTOR, SIMULATED, folder))
      assert.equal(case[3], (row(text, 'ceilings')), text)
      assert.matches(case[3] == 'passed' and '' or 'ceilings stopped the call',
        (select(2, row(text, 'torch'))))
    end
    run('rm -r ' .. folder)
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
  it('right', function() assert.are.same({ 1, { 2 } }, { 1, { 2 } })
    assert.not_same({ 1 }, { 2 }) end)
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
      'assert.is_truthy(nil)', 'assert(false, "no")', 'error "no"', 'assert.is_unknown(1)',
      'assert.not_same({ 1, { 2 } }, { 1, { 2 } })' } do
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
    local text = run(('RIDGE_GPU=%s RG_SIM_OOM_AFTER=0 scripts/gpu-check start bench'):format(
      SIMULATED))
    local result, note = row(text, 'bench')
    assert.equal('FAILED', result)
    assert.matches('exit code 1, see logs.tar.gz: bench.log: .*"error"', note)
    assert.equal('FAILED', (row(text, 'start')))
    assert.matches('status 1\n$', text)
  end)
end)
