-- SPDX-License-Identifier: MIT
-- kernels: no kernel spills registers, or takes more of them or more stack than caps.lua writes
-- down; a multiprocessor holds as many blocks of it as caps.lua says; and the instructions that
-- caps.lua names are in its code.
--
--     luajit scripts/gpu/kernels.lua [folder with FILE.ptx and what ptxas -v said of it, FILE.log
--       [the build folder]]
--
-- `make check-gpu` writes the folder. Without one, because there is no nvcc, it says so and ends.
-- FOLDER/kernels.md becomes the table of all kernels: registers, stack, spills, shared memory, and
-- blocks per multiprocessor where the simulated GPU has run before and said how they are launched
-- (build/gpu_launches.tsv; tests/sim/fakecuda_launches.cpp). The last line is `N passed, N failed`,
-- N kernels.

local HERE = arg[0]:match '^(.*/)' or './'
package.path = HERE .. '?.lua;' .. package.path
local occupancy = require 'occupancy'

local function lines(command)
  local pipe = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

-- All kernels of a folder: file, symbol, registers, stack, spill.
local function kernels_of(folder)
  local list = {}
  for _, path in ipairs(lines('find ' .. folder .. " -name '*.log' | sort")) do
    local kernel
    for line in io.lines(path) do
      local symbol = line:match "Compiling entry function '([^']+)'"
      if symbol then
        kernel = { file = path:sub(#folder + 2):match '^(.*)%.log$', symbol = symbol }
        list[#list + 1] = kernel
      end
      -- properties of a function that was not inlined name the function; it is nobody's own
      local stack, stores, loads =
        line:match '(%d+) bytes stack frame, (%d+) bytes spill stores, (%d+) bytes spill loads'
      if stack and kernel then
        kernel.stack = math.max(kernel.stack or 0, tonumber(stack))
        kernel.spill = (kernel.spill or 0) + stores + loads
      end
      local registers = line:match 'Used (%d+) registers'
      if registers and kernel then
        kernel.registers = tonumber(registers)
        kernel.smem = tonumber(line:match '(%d+) bytes smem' or 0)
      end
    end
  end
  return list
end

-- void (anonymous namespace)::k_sum<float>(rg_strided) -> k_sum<float>, k_sum
local function short(text)
  text = text:gsub('%(anonymous namespace%)::', ''):gsub('^void ', '')
  local name, rest = text:match '^([%w_]+)(.*)$'
  return name .. (rest:match '^%b<>' or ''), name
end

local function name_kernels(list)
  local path = os.tmpname()
  local file = assert(io.open(path, 'w'))
  for _, kernel in ipairs(list) do file:write(kernel.symbol, '\n') end
  file:close()
  for i, line in ipairs(lines('c++filt <' .. path)) do
    list[i].full, list[i].name = short(line)
  end
  os.remove(path)
end

-- The text of each kernel of a PTX file, by symbol.
local function bodies(path)
  local found, symbol, text = {}, nil, nil
  for line in io.lines(path) do
    local entry = line:match '%.entry%s+([%w_$]+)'
    if entry then symbol, text = entry, {} end
    if symbol then text[#text + 1] = line end
    if symbol and line == '}' then
      found[symbol], symbol = table.concat(text, '\n'), nil
    end
  end
  return found
end

-- Blocks per multiprocessor, where caps.lua says how many at least. It knows the threads of a
-- block, so this needs no run; a run may add dynamic shared memory, and may not launch larger
-- blocks. Where caps.lua does not say, the largest launch must find room at all.
local SIMULATED = 90 -- another device has other shared memory, and is asked for other amounts
local function judge_blocks(kernel, cap, capability, launch, add)
  if not occupancy.LIMITS[capability] or not (cap.blocks or launch) then return end
  local threads = cap.threads or launch.threads
  local least, smem = cap.blocks or 1, kernel.smem
  if launch and capability == SIMULATED then smem = smem + launch.smem end
  local blocks, limit = occupancy.blocks(capability, kernel.registers, threads, smem)
  if blocks < least then
    add('a multiprocessor holds %d blocks of %d threads (%s), at least %d are wanted', blocks,
      threads, limit, least)
  end
  if launch and launch.threads > threads then
    add('launched with blocks of %d threads, caps.lua says %d', launch.threads, threads)
  end
end

local function judge(kernel, cap, body, capability, launch)
  local wrong = {}
  local function add(...) wrong[#wrong + 1] = (...):format(select(2, ...)) end
  if not kernel.registers then return { 'ptxas did not say what it uses' } end
  if kernel.spill > 0 then add('%d bytes of spills', kernel.spill) end
  if kernel.stack > cap.stack then add('%d bytes of stack, %d allowed', kernel.stack, cap.stack) end
  if kernel.registers > cap.registers then
    add('%d registers, %d allowed', kernel.registers, cap.registers)
  end
  judge_blocks(kernel, cap, capability, launch, add)
  for _, word in ipairs(cap.has or {}) do
    if not body:find(word) then add('no instruction like %s', word) end
  end
  return wrong
end

-- -- The table ---------------------------------------------------------------------------

-- The largest blocks and dynamic shared memory that the simulated GPU was asked for, by kernel.
local function launches_of(path)
  local found = {}
  local file = io.open(path)
  if not file then return found end
  for line in file:lines() do
    local threads, smem, name = line:match '^(%d+)\t(%d+)\t(.+)$'
    if name then
      name = short(name)
      local one = found[name] or { threads = 0, smem = 0 }
      one.threads = math.max(one.threads, tonumber(threads))
      one.smem, found[name] = math.max(one.smem, tonumber(smem)), one
    end
  end
  file:close()
  return found
end

-- One row a kernel; those with the fewest warps on a multiprocessor first.
local function rows_of(list, capability, launches)
  local rows, launched = {}, 0
  for _, k in ipairs(list) do
    local at, row = launches[k.full], { kernel = k, share = 2 }
    if at and k.registers and occupancy.LIMITS[capability] then
      launched = launched + 1
      row.threads, row.smem = at.threads, k.smem + at.smem
      row.blocks, row.limit, row.share =
        occupancy.blocks(capability, k.registers, row.threads, row.smem)
    end
    rows[#rows + 1] = row
  end
  table.sort(rows, function(a, b)
    if a.share ~= b.share then return a.share < b.share end
    if a.kernel.file ~= b.kernel.file then return a.kernel.file < b.kernel.file end
    return a.kernel.full < b.kernel.full
  end)
  return rows, launched
end

local function write_table(path, list, capability, launches)
  local rows, launched = rows_of(list, capability, launches)
  local file = assert(io.open(path, 'w'))
  file:write(('# Kernels for capability %.1f, as ptxas counts them\n\n'):format(capability / 10),
    'Threads, shared memory (static and dynamic) and so blocks per multiprocessor are those of\n',
    'the largest launch that the tests of the simulated GPU make; nothing here ran on a GPU.\n\n',
    '| kernel | file | registers | stack | spilled | threads | shared | blocks | occupancy '
      .. '| limited by |\n',
    '|---|---|---|---|---|---|---|---|---|---|\n')
  for _, row in ipairs(rows) do
    local k = row.kernel
    file:write(('| `%s` | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n'):format(k.full, k.file,
      k.registers or '', k.stack or '', k.spill or '', row.threads or '', row.smem or k.smem or '',
      row.blocks or '', row.blocks and ('%.0f %%'):format(100 * row.share) or 'not launched',
      row.limit or ''))
  end
  file:close()
  print(('# %s: %d kernels, %d of them launched by tests%s'):format(path, #list, launched,
    occupancy.LIMITS[capability] and '' or '; occupancy.lua does not know this capability'))
end

local function main(folder, build)
  if not folder then
    print 'kernels: no nvcc here: nothing was compiled, nothing was checked'
    return 0
  end
  local caps = dofile(HERE .. 'caps.lua')
  local list = kernels_of(folder)
  name_kernels(list)
  local failed, used, texts = 0, {}, {}
  local capability = tonumber(folder:match '(%d+)/*$')
  local launches = launches_of((build or 'build') .. '/gpu_launches.tsv')
  for _, kernel in ipairs(list) do
    local key = caps[kernel.full] and kernel.full or kernel.name
    local given = caps[key] or {}
    used[key] = true
    local cap = { registers = given.registers or caps.default.registers,
      stack = given.stack or caps.default.stack, has = given.has, threads = given.threads,
      blocks = given.blocks }
    if cap.has and not texts[kernel.file] then
      texts[kernel.file] = bodies(folder .. '/' .. kernel.file .. '.ptx')
    end
    local wrong = judge(kernel, cap, cap.has and texts[kernel.file][kernel.symbol] or '',
      capability, launches[kernel.full])
    if #wrong > 0 then
      failed = failed + 1
      print(('not ok gpu/%s.cu: %s: %s'):format(kernel.file, kernel.full,
        table.concat(wrong, ', ')))
    end
  end
  for key, given in pairs(caps) do
    if key ~= 'default' and not used[key] then
      failed = failed + 1
      print(('not ok scripts/gpu/caps.lua: there is no kernel %s'):format(key))
    end
    if key ~= 'default' and not given.why then
      failed = failed + 1
      print(('not ok scripts/gpu/caps.lua: %s does not say why'):format(key))
    end
  end
  if #list == 0 then failed = failed + 1 end
  write_table(folder .. '/kernels.md', list, capability, launches)
  print(('%d passed, %d failed'):format(math.max(0, #list - failed), failed))
  return failed > 0 and 1 or 0
end

os.exit(main(arg[1], arg[2]))
