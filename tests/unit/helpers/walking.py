"""The order of slots, found without arithmetic."""


def order_by_walking(length, directions):
    """The order, by taking words from both ends of each segment in turn."""
    if directions == 1:
        return list(range(length))
    segments, begin = [], 0
    for number in range(directions // 2):
        size = length // (directions // 2) + (number < length % (directions // 2))
        segments.append(list(range(begin, begin + size)))
        begin += size
    walks = []
    for segment in segments:
        walk, left = [], True
        while segment:
            walk.append(segment.pop(0 if left else -1))
            left = not left
        walks.append(walk)
    order = []
    for place in range(length):
        order += [walk[place] for walk in walks if place < len(walk)]
    return order
