-- SPDX-License-Identifier: MIT
--- A profile in Chrome's trace event format, which Perfetto and chrome://tracing open, and as spans
--- of a picture.

local escape = require 'ridge.profile.escape'
local kernels = require 'ridge.profile.kernels'
local output = require 'ridge.ffi.output'
local tree = require 'ridge.profile.tree'

local M = {}

local PROCESS, HOST = 1, 1 -- numbers of the process and of the track that the host's calls are on

-- Tracks: the host's own, and one for each stream of a device, and for the kernels of one. `more`
-- gives a further one of the host's.
local function tracks()
  local by, n = {}, HOST
  local function more()
    n = n + 1
    return n
  end
  return function(event, what)
    local key = ('%s %s %d'):format(event.device, what or 'stream', event.stream)
    local track = by[key]
    if not track then
      track = more()
      by[key] = track
      return track, key
    end
    return track
  end, more
end

-- What the host's tracks have open: on a track slices lie in each other or one behind the other,
-- and a reader drops one that does not. A section stays open while its coroutine waits, and others
-- begin and end their own across its end: those are on a track beside it.
local function host_tracks(more)
  local lanes, lane_of = {}, {} -- {track =, depth =, ends}; by the serial of what holds others
  local function fits(lane, from, to)
    while lane.depth > 0 and lane[lane.depth] <= from do lane.depth = lane.depth - 1 end
    return lane.depth == 0 or to <= lane[lane.depth]
  end
  return function(event, from, to)
    local lane = lane_of[event.parent] or lanes[1]
    if not (lane and fits(lane, from, to)) then
      lane = nil
      for i = 1, #lanes do
        if fits(lanes[i], from, to) then
          lane = lanes[i]
          break
        end
      end
    end
    local new = not lane
    if new then
      lane = { track = #lanes == 0 and HOST or more(), depth = 0 }
      lanes[#lanes + 1] = lane
    end
    lane.depth = lane.depth + 1
    lane[lane.depth] = to
    if tree.HOLDS[event.kind] then lane_of[event.serial] = lane end
    return lane.track, new and ('host, beside it %d'):format(#lanes - 1)
  end
end

local function args_of(event)
  local parts = {}
  local function put(name, text) parts[#parts + 1] = ('"%s":%s'):format(name, text) end
  if event.shapes ~= '' then put('shapes', escape.json(event.shapes)) end
  if event.path ~= '' then put('path', escape.json(event.path)) end
  if event.module then put('module', escape.json(event.module)) end
  if event.flops > 0 then put('flops', ('%.0f'):format(event.flops)) end
  if event.bytes > 0 then put('bytes', ('%.0f'):format(event.bytes)) end
  return table.concat(parts, ',')
end

local function micros(ns) return ('%.3f'):format(ns / 1e3) end

-- Which windows' time an event lies in, cut to it; nil: in none.
local function place_of(event, windows)
  local at = tree.window_of(windows, event.serial)
  if not at then return nil end
  local from = math.max(event.begin_ns, windows[at].from)
  return from, math.max(from, math.min(event.end_ns or windows[at].to, windows[at].to))
end

-- Calls that gradients lead back to, by their serial. An arrow to what is left out has no end.
local function origins(p)
  local wanted = {}
  for event in p.copy:each() do
    if event.origin and tree.window_of(p.windows, event.serial) then wanted[event.origin] = true end
  end
  return wanted
end

local function writer(out)
  local first = true
  return function(format, ...)
    out:write((first and '\n' or ',\n') .. format:format(...))
    first = false
  end
end

local MOMENTS = { alloc = true, free = true }

-- The bytes that live on a device, where they have changed.
local function memory_of(put, event, base, live)
  if event.end_ns and (event.kind == 'op' or event.kind == 'step' or MOMENTS[event.kind])
      and live[event.device] ~= event.live_bytes then
    live[event.device] = event.live_bytes
    put('{"name":"memory of %s","ph":"C","ts":%s,"pid":%d,"args":{"bytes":%d}}', event.device,
      micros(event.end_ns - base), PROCESS, event.live_bytes)
  end
end

-- An arrow from a call to the first part of its gradient.
local function flow_of(put, event, track, base, wanted, found, from, to)
  local middle = micros((from + to) / 2 - base)
  if wanted[event.serial] and not event.origin then
    put('{"name":"gradient","cat":"gradient","ph":"s","id":%d,"ts":%s,"pid":%d,"tid":%d}',
      event.serial, middle, PROCESS, track)
    found[event.serial] = true
  elseif event.origin and found[event.origin] then
    put('{"name":"gradient","cat":"gradient","ph":"f","bp":"e","id":%d,"ts":%s,"pid":%d,"tid":%d}',
      event.origin, middle, PROCESS, track)
    found[event.origin] = nil
  end
end

local function name_track(put, track, name)
  put('{"name":"thread_name","ph":"M","pid":%d,"tid":%d,"args":{"name":%s}}', PROCESS, track,
    escape.json(name))
end

-- What is known of a kernel, a copy, a fill.
local function args_of_kernel(row)
  local parts = {}
  for _, name in ipairs { 'op', 'path', 'module', 'name' } do
    if row[name] and row[name] ~= '' then
      parts[#parts + 1] = ('"%s":%s'):format(name == 'op' and 'operation' or name,
        escape.json(row[name]))
    end
  end
  for _, name in ipairs { 'registers', 'static_bytes', 'dynamic_bytes', 'bytes' } do
    if row[name] then parts[#parts + 1] = ('"%s":%d'):format(name, row[name]) end
  end
  for _, name in ipairs { 'grid', 'block' } do
    if row[name] then
      parts[#parts + 1] = ('"%s":[%s]'):format(name, table.concat(row[name], ','))
    end
  end
  if row.occupancy then parts[#parts + 1] = ('"occupancy":%.4f'):format(row.occupancy) end
  return table.concat(parts, ',')
end

-- Kernels on tracks of their own, each with an arrow from the call that asked for it; those without
-- a time have no place.
local function kernels_of(put, p, base, track_of, asked_on)
  local n = 0
  for row, event in kernels.each(p) do
    if row.from_ns then
      local track, new = track_of(row, 'kernels of stream')
      if new then name_track(put, track, new) end
      put('{"name":%s,"cat":"%s","ph":"X","ts":%s,"dur":%s,"pid":%d,"tid":%d,"args":{%s}}',
        escape.json(kernels.short(row.name)), row.kind, micros(row.from_ns - base),
        micros(row.to_ns - row.from_ns), PROCESS, track, args_of_kernel(row))
      if event and event.end_ns then
        n = n + 1
        put('{"name":"launch","cat":"launch","ph":"s","id":%d,"ts":%s,"pid":%d,"tid":%d}', n,
          micros((event.begin_ns + event.end_ns) / 2 - base), PROCESS,
          asked_on[event.serial] or HOST)
        put('{"name":"launch","cat":"launch","ph":"f","bp":"e","id":%d,"ts":%s,"pid":%d,"tid":%d}',
          n, micros((row.from_ns + row.to_ns) / 2 - base), PROCESS, track)
      end
    end
  end
end

local function write(p, out)
  local put, base = writer(out), p.windows[1] and p.windows[1].from or 0
  local wanted, found, live, asked_on = origins(p), {}, {}, {} -- asked_on: where not on the first
  local track_of, more = tracks()
  local place_on = host_tracks(more)
  out:write('{"displayTimeUnit":"ns","otherData":{"program":"ridge","dropped":"' .. p.dropped
    .. '"},"traceEvents":[')
  put('{"name":"process_name","ph":"M","pid":%d,"args":{"name":"ridge"}}', PROCESS)
  name_track(put, HOST, 'host')
  for event in p.copy:each() do
    local from, to = place_of(event, p.windows)
    if from and not MOMENTS[event.kind] then
      local kind, args = event.kind, args_of(event)
      local on, added = place_on(event, from, to)
      if on ~= HOST then
        asked_on[event.serial] = on
        if added then name_track(put, on, added) end
      end
      put('{"name":%s,"cat":"%s","ph":"X","ts":%s,"dur":%s,"pid":%d,"tid":%d,"args":{%s}}',
        escape.json(event.name), kind, micros(from - base), micros(to - from), PROCESS, on, args)
      if event.device_ns and event.from_ns == event.from_ns then
        local track, new = track_of(event)
        if new then name_track(put, track, new) end
        put('{"name":%s,"cat":"%s","ph":"X","ts":%s,"dur":%s,"pid":%d,"tid":%d,"args":{%s}}',
          escape.json(event.name), kind, micros(event.from_ns - base),
          micros(math.max(0, event.to_ns - event.from_ns)), PROCESS, track, args)
      end
      flow_of(put, event, on, base, wanted, found, from, to)
    end
    if from then memory_of(put, event, base, live) end
  end
  kernels_of(put, p, base, track_of, asked_on)
  out:write '\n]}\n'
end

--- Write it.
---@param p table profile
---@param path string
function M.write(p, path)
  output.write(path, 'profile:trace', function(out) write(p, out) end)
end

--- Its calls, copies and steps as the timeline draws them.
---@param p table profile
---@return table list name, device, stream, begin_s, end_s, module
---@return number unrecorded seconds from the first to the last in which nothing was recorded
function M.spans(p)
  local list, base = {}, p.windows[1] and p.windows[1].from or 0
  local at, n = nil, 0 -- windows of the first and the last call
  for event in p.copy:each() do
    if (event.kind == 'op' or event.kind == 'step' or event.kind == 'copy') and event.end_ns
        and event.from_ns == event.from_ns and tree.window_of(p.windows, event.serial) then
      list[#list + 1] = { name = event.name, stream = event.stream, device = event.device,
        begin_s = (event.from_ns - base) / 1e9, end_s = (event.to_ns - base) / 1e9,
        module = event.module }
      n = tree.window_of(p.windows, event.serial)
      at = at or n
    end
  end
  local unrecorded = 0
  for i = (at or 0) + 1, n do
    unrecorded = unrecorded + p.windows[i].from - p.windows[i - 1].to
  end
  return list, unrecorded / 1e9
end

return M
